#!/usr/bin/env python3
"""SmolLM2-135M on this machine: Spillway's CPU device and llama.cpp in turns, beside the machine's limits.

usage: bench/bench.py [--rounds N] [--threads N,N] [--resume] [--no-compile] [--llama-1b] [--build FOLDER]

Each round measures every contender once with each number of threads, one after the other, so that what disturbs the
machine disturbs all. Prints least, median and greatest values and the ratios of medians. bench/out/bench.json has all
samples, bench/out/bench.svg a chart. A stopped run goes on with --resume. At the end, not in rounds: compiles for the
HTP, by stages; with --llama-1b also one of random weights in the shape of Llama-3.2-1B, which takes many minutes and
10 GB. `make bench` builds what this needs.

What is compared:
- prefill and decode: llama-bench's pp and tg (after its warm-up run); bench_cpu_device's, on bundles of the same
  checkpoint: of AR 32, context 128 for prompts of 32 tokens, of AR 128, context 1024 for longer ones and decode.
- start to first token: the wall time of a process that loads the model, takes 46 tokens and makes one, and its peak
  memory, with the files in the page cache: `llama-bench --no-warmup -pg 46,1`, `spillway generate`.
- limits: see bench/cpu_device.c. The share of decode is of reading the weights once a token; the share of prefill is of
  multiply-adds, int8 or int16 by int8 as the activations are.
"""
import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time

import chart

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OUT = os.path.join(ROOT, "bench", "out")
PEERS = os.path.join(ROOT, "external", "peers")
PROMPT = "I would like to learn python, could you teach me with a simple example?"  # 46 tokens in a chat's frame
OURS = {  # name: options of compile, which multiply-adds bound its prefill
    "16a8w": (["--quant", "16a8w"], "int16_gmac_per_s"),
    "8a8w": (["--quant", "8a8w"], "int8_gmac_per_s"),
    "16a4w": (["--quant", "16a4w", "--rounding", "nearest"], "int16_gmac_per_s"),
    "16a4w, 4-bit head": (["--quant", os.path.join(ROOT, "bench", "all4.json"), "--rounding", "nearest"],
                          "int16_gmac_per_s"),
}
FORMATS = ["Q8_0", "Q4_0", "F16"]
SHAPES = {"short": ["--prefill_ar_len", "32", "--max_seq_len", "128"],
          "long": ["--prefill_ar_len", "128", "--max_seq_len", "1024"]}
METRICS = ["prefill_32", "prefill_128", "prefill_512", "decode", "first_token_s", "peak_memory_mb"]
UNITS = {"first_token_s": "s", "peak_memory_mb": "MB"}


def fail(text):
    sys.exit("bench: " + text)


def run(command):
    """Output, seconds on the wall, and peak memory of a process in MB."""
    start = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT)
    text = child.stdout.read().decode()
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.monotonic() - start
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        fail(f"exit status {child.returncode} of: {' '.join(command)}")
    return text, seconds, usage.ru_maxrss / 1e3


def prepare(build):
    """Bundles for the CPU device, made again where the program is newer."""
    program = os.path.join(build, "bench", "bench_prepare")
    for name, (options, _) in OURS.items():
        for shape, sizes in SHAPES.items():
            folder = bundle(name, shape)
            manifest = os.path.join(folder, "manifest.json")
            if os.path.exists(manifest) and os.path.getmtime(manifest) > os.path.getmtime(program):
                continue
            print(f"preparing {name}, {shape} context", file=sys.stderr, flush=True)
            run([program, "-m", "SM8750", "--decoder_model", "smollm2_135m", "--calib_samples", "2", "--artifact",
                 folder] + options + sizes)  # speed doesn't hang on ranges


def bundle(name, shape):
    return os.path.join(OUT, "bundles", re.sub("[^0-9a-z]+", "_", name) + "-" + shape)


def sample_ours(build, name, threads):
    program = os.path.join(build, "bench", "bench_cpu_device")
    values = {}
    for shape in SHAPES:
        document = json.loads(run([program, bundle(name, shape), "1", str(threads)])[0])
        results = document["results"][0]
        metrics = ["prefill_32"] if shape == "short" else ["prefill_128", "prefill_512", "decode", "read_gb_per_s",
                                                           "int8_gmac_per_s", "int16_gmac_per_s"]
        for metric in metrics:
            values[metric] = results[metric]["median"]
        values["token_bytes"], values["token_macs"] = document["weight_bytes_per_token"], document[
            "prefill_macs_per_token"]
    _, values["first_token_s"], values["peak_memory_mb"] = run(
        [os.path.join(build, "spillway"), "generate", bundle(name, "short"), "--prompt", PROMPT, "--max_seq_len", "47",
         "--temperature", "0", "--threads", str(threads)])
    return values


def sample_peer(name, threads):
    command = [os.path.join(PEERS, "build", "bin", "llama-bench"), "-m",
               os.path.join(PEERS, f"SmolLM2-135M-{name}.gguf"), "-t", str(threads), "-o", "json", "-r", "1"]
    values = {}
    for test in json.loads(run(command + ["-p", "32,128,512", "-n", "128"])[0]):
        metric = f"prefill_{test['n_prompt']}" if test["n_prompt"] else "decode"
        values[metric], values["token_bytes"] = test["avg_ts"], test["model_size"]
    _, values["first_token_s"], values["peak_memory_mb"] = run(
        command + ["--no-warmup", "-p", "0", "-n", "0", "-pg", "46,1"])
    return values


def sample(build, name, threads):
    if name in OURS:
        return sample_ours(build, name, threads)
    return sample_peer(name.removeprefix("llama.cpp "), threads)


def contenders():
    """Ours and the peer's in turns."""
    ours, peers = list(OURS), ["llama.cpp " + f for f in FORMATS]
    order = []
    for i in range(max(len(ours), len(peers))):
        order += peers[i:i + 1] + ours[i:i + 1]
    return order


def save(result):
    path = os.path.join(OUT, "bench.json")
    with open(path + ".partial", "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
    os.replace(path + ".partial", path)


def measure(result, build, rounds, threads):
    for n in range(rounds):
        for t in threads:
            for name in contenders():
                samples = result["samples"].setdefault(name, {}).setdefault(str(t), [])
                if len(samples) > n:
                    continue
                print(f"round {n + 1} of {rounds}: {name}, threads: {t}", file=sys.stderr, flush=True)
                samples.append(sample(build, name, t))
                save(result)


def random_model(build):
    path = os.path.join(OUT, "llama-1b.gguf")
    if not os.path.exists(path):
        run([os.path.join(build, "bench", "bench_random_model"), path + ".partial"])
        os.replace(path + ".partial", path)
    return path


def compiles(result, build, llama_1b):
    """Compiles for the HTP, by stages: seconds on the clock and of the processor, and peak memory. Three by themselves,
    of which the one with the median of our own share counts; then one into an empty cache, and one that finds all there."""
    jobs = {"SmolLM2-135M " + " ".join(s): ["--decoder_model", "smollm2_135m"] + s for s in SHAPES.values()}
    if llama_1b:
        jobs["Llama-3.2-1B's shape " + " ".join(SHAPES["short"])] = [
            "--model", random_model(build), "--calib_samples", "1"] + SHAPES["short"]
    cache = os.path.join(OUT, "compile-cache")
    for name, options in jobs.items():
        plain = 3 if name.startswith("SmolLM2") else 0  # a large one takes minutes: with its cache alone
        for label, times, more in ((name, plain, []), (name + ", into a cache", 1, ["--cache", cache]),
                                   (name + ", again, from the cache", 1, ["--cache", cache])):
            if label in result["compiles"] or times == 0:
                continue
            if label.endswith("into a cache"):
                shutil.rmtree(cache, ignore_errors=True)
            runs = sorted((compile_once(label, build, options + more) for _ in range(times)),
                          key=lambda c: c["own_share"] or 0)
            result["compiles"][label] = runs[times // 2] | {"own_shares": [c["own_share"] for c in runs]}
            save(result)


def compile_once(label, build, options):
    print(f"compiling {label}", file=sys.stderr, flush=True)
    artifact = os.path.join(OUT, "compiled")
    command = [os.path.join(build, "spillway"), "compile", "-m", "SM8750", "--artifact", artifact] + options
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode != 0:
        fail(f"exit status {done.returncode} of: {' '.join(command)}\n{done.stderr[-2000:]}")
    return read_compile(done.stderr, artifact)


def read_compile(talk, artifact):
    """The table that a compile prints, and what its manifest says."""
    stages = [{"stage": m[1], "seconds": float(m[2]), "cpu_seconds": float(m[3]), "peak_memory_mb": float(m[4])}
              for m in re.finditer(r"^([a-z-]+) +([0-9.]+) s +([0-9.]+) s +([0-9]+) MB$", talk, re.M)]
    total = re.search(r"^compiled into .* in ([0-9.]+) s: Qualcomm's finalize ([0-9.]+) s, its other calls ([0-9.]+) s, "
                      r"ours ([0-9.]+) s(?: \([0-9]+ % of finalize\))?; peak memory ([0-9]+) MB, of this process "
                      r"([0-9]+) MB$", talk, re.M)
    with open(os.path.join(artifact, "manifest.json"), encoding="utf-8") as file:
        graphs = json.load(file)["graphs"]
    seconds, finalize, library, own = (float(total[i]) for i in range(1, 5))
    return {"stages": stages, "seconds": seconds, "finalize_seconds": finalize, "library_seconds": library,
            "own_seconds": own, "own_share": of_finalize(own, finalize),
            "own_and_library_share": of_finalize(own + library, finalize), "peak_memory_mb": float(total[5]),
            "own_peak_memory_mb": float(total[6]), "load_average": os.getloadavg(),
            "spill_fill_bytes": {g["name"]: g["spill_fill_bytes"] for g in graphs}}


def of_finalize(seconds, finalize):
    """A share, or None where all graphs came from the cache."""
    return round(seconds / finalize, 3) if finalize > 0 else None


def medians(result, name, threads):
    samples = result["samples"][name][str(threads)]
    return {key: statistics.median(s[key] for s in samples) for key in samples[0]}


def share(result, name, threads, metric):
    """Of the machine's limit in the same run, or None."""
    m = medians(result, name, threads)
    mine = medians(result, name if name in OURS else next(iter(OURS)), threads)
    if metric == "decode":
        return m["decode"] * m["token_bytes"] / (mine["read_gb_per_s"] * 1e9)
    if metric in ("prefill_128", "prefill_512") and name in OURS:
        return m[metric] * m["token_macs"] / (mine[OURS[name][1]] * 1e9)
    return None


def ratios(result, t):
    """Each: what, ratio, and what the project wants of it."""
    m = {name: medians(result, name, t) for name in contenders()}
    peers = [m["llama.cpp " + f] for f in FORMATS]
    q8, best_prefill = m["llama.cpp Q8_0"], max(p["prefill_128"] for p in peers)
    rows = [(f"decode, {n} to llama.cpp Q8_0", m[n]["decode"] / q8["decode"], 1.5) for n in ("16a8w", "8a8w")]
    rows += [("prefill 128, 8a8w to llama.cpp's best", m["8a8w"]["prefill_128"] / best_prefill, 1.5),
             ("prefill 128, 16a8w to llama.cpp's best", m["16a8w"]["prefill_128"] / best_prefill, 1.2),
             ("decode, 16a4w with a 4-bit head to 16a8w", m["16a4w, 4-bit head"]["decode"] / m["16a8w"]["decode"], 1.5),
             ("first token, llama.cpp Q8_0's time to 16a8w's", q8["first_token_s"] / m["16a8w"]["first_token_s"], 1.5),
             ("first token, a quarter of a second to 16a8w's", 0.25 / m["16a8w"]["first_token_s"], 1)]
    rows += [(f"decode, {n} to the bandwidth limit", share(result, n, t, "decode"), 0.75) for n in ("16a8w", "8a8w")]
    return rows


def own_shares(c):
    """Of finalize; nothing where all graphs came from the cache."""
    if c["own_share"] is None:
        return ""
    least, most = (f"{100 * share:.1f}" for share in (c["own_shares"][0], c["own_shares"][-1]))
    return (f" ({100 * c['own_share']:.1f} % of finalize" + (f", {least} to {most} % in {len(c['own_shares'])} runs"
                                                             if len(c["own_shares"]) > 1 else "")
            + f"; {100 * c['own_and_library_share']:.1f} % with the other calls)")


def print_results(result):
    for t in result["threads"]:
        reference = medians(result, next(iter(OURS)), t)
        print(f"\nthreads: {t}; this machine reads {reference['read_gb_per_s']:.1f} GB/s of weights and does "
              f"{reference['int8_gmac_per_s']:.0f} thousand million int8 multiply-adds a second, "
              f"{reference['int16_gmac_per_s']:.0f} of int16 by int8")
        for metric in METRICS:
            print(f"  {metric} ({UNITS.get(metric, 'tokens/s')})")
            for name in contenders():
                values = sorted(s[metric] for s in result["samples"][name][str(t)])
                of = share(result, name, t, metric)
                print(f"    {name:22} min {values[0]:8.4g}  median {statistics.median(values):8.4g}  "
                      f"max {values[-1]:8.4g}" + (f"  {of:5.2f} of the limit" if of is not None else ""))
        print("  ratios of medians (wanted)")
        for what, value, wanted in ratios(result, t):
            print(f"    {what:48} {value:6.2f}  ({wanted})")
    for what, c in result["compiles"].items():
        print(f"\ncompile {what}: {c['seconds']:.1f} s: Qualcomm's finalize {c['finalize_seconds']:.1f} s, its other calls "
              f"{c['library_seconds']:.1f} s, ours {c['own_seconds']:.1f} s{own_shares(c)}; peak memory "
              f"{c['peak_memory_mb']:.0f} MB, of our process {c['own_peak_memory_mb']:.0f} MB; spill-fill bytes "
              f"{c['spill_fill_bytes']}")
        for s in c["stages"]:
            print(f"    {s['stage']:12} {s['seconds']:7.2f} s   CPU here {s['cpu_seconds']:7.2f} s   peak "
                  f"{s['peak_memory_mb']:6.0f} MB")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", default=None, help="numbers with commas (default: 1 and all processors)")
    parser.add_argument("--resume", action="store_true", help="go on with a stopped run")
    parser.add_argument("--no-compile", action="store_true", help="leave the compiles for the HTP out")
    parser.add_argument("--llama-1b", action="store_true", help="compile a graph of that size too")
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    options = parser.parse_args()
    processors = len(os.sched_getaffinity(0))
    threads = [int(t) for t in options.threads.split(",")] if options.threads else sorted({1, processors})
    build = os.path.abspath(options.build)
    os.makedirs(OUT, exist_ok=True)
    prepare(build)
    result = {"samples": {}, "compiles": {}}
    if options.resume and os.path.exists(os.path.join(OUT, "bench.json")):
        with open(os.path.join(OUT, "bench.json"), encoding="utf-8") as file:
            result = json.load(file)
    result.update(threads=threads, processors=processors, load_average=os.getloadavg())
    measure(result, build, options.rounds, threads)
    if not options.no_compile:
        compiles(result, build, options.llama_1b)
    result["ratios"] = {str(t): [list(r) for r in ratios(result, t)] for t in threads}
    save(result)
    with open(os.path.join(OUT, "bench.svg"), "w", encoding="utf-8") as file:
        file.write(chart.draw(result, contenders(), METRICS, UNITS))
    print_results(result)
    print(f"\nall samples: {os.path.join(OUT, 'bench.json')}; chart: {os.path.join(OUT, 'bench.svg')}")


main()
