"""Bars with least and greatest values, a panel for each metric and number of threads, as SVG."""
import html
import statistics

WIDTH, LABEL, BAR, ROW, HEAD, GAP = 460, 150, 230, 18, 34, 16


def panel(samples, names, metric, unit, threads, x, y):
    rows = {name: sorted(s[metric] for s in samples[name][str(threads)]) for name in names}
    most = max(values[-1] for values in rows.values())
    title = f"{metric.replace('_', ' ')}, {threads} thread{'s' if threads > 1 else ''} ({unit})"
    parts = [f'<text x="{x}" y="{y + 16}" font-weight="bold">{html.escape(title)}</text>']
    for i, (name, values) in enumerate(rows.items()):
        top = y + HEAD - 8 + i * ROW
        least, middle, greatest = (BAR * v / most for v in (values[0], statistics.median(values), values[-1]))
        colour = "#9aa5b1" if name.startswith("llama.cpp") else "#2f6fb3"
        parts.append(f'<text x="{x + LABEL - 6}" y="{top + 11}" text-anchor="end">{html.escape(name)}</text>'
                     f'<rect x="{x + LABEL}" y="{top}" width="{middle:.1f}" height="{ROW - 5}" fill="{colour}"/>'
                     f'<path d="M{x + LABEL + least:.1f} {top + 6.5}H{x + LABEL + greatest:.1f}" stroke="#222"/>'
                     f'<text x="{x + LABEL + BAR + 6}" y="{top + 11}">{statistics.median(values):.4g}</text>')
    return "".join(parts)


def draw(result, names, metrics, units):
    threads = result["threads"]
    height = HEAD + len(names) * ROW + GAP
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH * len(threads)}" height="{height * len(metrics)}" '
             'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>']
    for row, metric in enumerate(metrics):
        for column, t in enumerate(threads):
            parts.append(panel(result["samples"], names, metric, units.get(metric, "tokens/s"), t,
                               10 + column * WIDTH, row * height))
    return "\n".join(parts) + "\n</svg>\n"
