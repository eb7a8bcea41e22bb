#!/usr/bin/env python3
"""Draws what `spillway traffic --tsv` has measured of one shape: a bar for each level and form of attention.

usage: bench/forms_chart.py TSV CONTEXT LEAST_PREFILL LEAST_DECODE > FILE.svg
LEAST: bytes that must be read; drawn as a line."""
import csv
import html
import sys

LEFT, BAR, ROW, HEAD, WIDTH = 180, 560, 20, 30, 860
PARTS = (("read, but fills", "#4a7fb5"), ("fills", "#d1242f"), ("write, but spills", "#9aa3ad"), ("spills", "#ff9a3c"))


def bar(row, y, scale):
    sizes = [int(row["read B"]) - int(row["fill B"]), int(row["fill B"]),
             int(row["write B"]) - int(row["spill B"]), int(row["spill B"])]
    label = f'level {row["opt level"]}, {row["attention"]}'
    out = [f'<text x="{LEFT - 8}" y="{y + 13}" text-anchor="end">{html.escape(label)}</text>']
    x = LEFT
    for size, (_, colour) in zip(sizes, PARTS):
        out.append(f'<rect x="{x:.1f}" y="{y + 2}" width="{size * scale:.1f}" height="{ROW - 5}" fill="{colour}"/>')
        x += size * scale
    out.append(f'<text x="{x + 6:.1f}" y="{y + 13}">{sum(sizes) / 1e6:.1f} MB</text>')
    return "".join(out)


def panel(rows, title, least, y, scale):
    rows = sorted(rows, key=lambda r: (-int(r["opt level"]), r["attention"] != "grouped", r["attention"] != "per_kv_head"))
    out = [f'<text x="10" y="{y + 14}" font-weight="bold">{html.escape(title)}</text>']
    out += [bar(row, y + HEAD + i * ROW, scale) for i, row in enumerate(rows)]
    x, bottom = LEFT + least * scale, y + HEAD + len(rows) * ROW
    out.append(f'<path d="M{x:.1f} {y + HEAD - 6}V{bottom}" stroke="#1b1f24" stroke-dasharray="4 3"/>'
               f'<text x="{x + 4:.1f}" y="{y + HEAD - 8}">must be read: {least / 1e6:.1f} MB</text>')
    return "".join(out), bottom + 16


def main():
    path, context, least_prefill, least_decode = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    with open(path, encoding="utf-8", newline="") as file:
        rows = [r for r in csv.DictReader(file, delimiter="\t")
                if r["context"] == context and r["VTCM MB"] == "8" and r["recipe"] == "16a8w"
                and r["logits"] == "all" and r["layers"] == "30" and r["read B"] != "-"]
    rows = list({(r["graph"], r["opt level"], r["attention"]): r for r in rows}.values())
    scale = BAR / max(int(r["read B"]) + int(r["write B"]) for r in rows)
    body, y = [], 8
    for i, (name, colour) in enumerate(PARTS):
        body.append(f'<rect x="{LEFT + i * 150}" y="{y}" width="11" height="11" fill="{colour}"/>'
                    f'<text x="{LEFT + 16 + i * 150}" y="{y + 10}">{name}</text>')
    y += 24
    for graph, least in (("prefill_forward", least_prefill), ("kv_forward", least_decode)):
        mine = [r for r in rows if r["graph"] == graph]
        text, y = panel(mine, f'{graph}, AR {mine[0]["AR"]}', least, y, scale)
        body.append(text)
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" height="{y}" '
          'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>')
    print("\n".join(body) + "\n</svg>")


main()
