#!/usr/bin/env python3
"""Builds every layout of device code across shared libraries, with plain nvcc or through dlink-shim, and loads it.

    layouts.py --nvcc NVCC --shim DLINK_SHIM --out DIR [--ld bfd,gold,lld,mold] [--layouts L1,…] [--variants plain,…]
               [--arch=-arch=sm_90] [--flags "WORDS for nvcc"] [--gpu] [--whole] [--json FILE]

It needs nvcc, g++, Python 3 and the dlink-shim program. Without a GPU a preloaded probe tells which kernels register; with --gpu every kernel runs and its value is checked, also
after the last library was closed and opened again three times.
For each layout and load order one line: stock, and dlink-shim on all images, on the first only, on the second only.
`ok` everything registers (runs); otherwise what is missing. Exit 1 if a cell is worse with the shim than without.
"""
import argparse, concurrent.futures, json, os, shlex, subprocess, sys, time

HERE = os.path.dirname(os.path.abspath(__file__))
QUICKSTART = os.path.join(HERE, "..", "quickstart")

# unit: macros. The same source under one name for each unit, since the module id comes from the file's name.
UNITS = {
    "s": "-DNAME=s", "d": "-DNAME=d -DGIVES=helper",
    "p1": "-DNAME=p1 -DUSES=s", "p2": "-DNAME=p2 -DUSES=s",
    "q1": "-DNAME=q1 -DUSES=s -DWANTS=helper", "q2": "-DNAME=q2 -DUSES=s -DWANTS=helper",
    "main": "-DNAME=main_unit -DUSES=s -DMAIN",
    "dp1": "-DNAME=dp1 -DPARENT", "dp2": "-DNAME=dp2 -DPARENT",
}

# Each step: ("dlink", image, output, words) or ("so"/"exe", output, words). {X} is X.o; archives are made beforehand.
# image 0 or 1 says which of the two "shim on the first / second only" columns it belongs to.
PLUGINS = [["libfirst.so", "libsecond.so"], ["libsecond.so", "libfirst.so"]]
LAYOUTS = {
    "L1": dict(about="device-only archive, plugins on a core library", expect=["s", "p1", "p2"], orders=[["libcore.so"] + o for o in PLUGINS] + PLUGINS, steps=[
        ("dlink", 0, "core", "s.o"), ("so", "libcore.so", "s.o core_dl.o"),
        ("dlink", 0, "first", "p1.o -L. -ls_nv"), ("so", "libfirst.so", "p1.o first_dl.o -lcore"),
        ("dlink", 1, "second", "p2.o -L. -ls_nv"), ("so", "libsecond.so", "p2.o second_dl.o -lcore")]),
    "L2": dict(about="as L1, and the plugins call the core's device function", expect=["s", "d", "q1", "q2"], orders=[["libcore.so"] + o for o in PLUGINS] + PLUGINS, steps=[
        ("dlink", 0, "core", "s.o d.o"), ("so", "libcore.so", "s.o d.o core_dl.o"),
        ("dlink", 0, "first", "q1.o -L. -lsd_nv"), ("so", "libfirst.so", "q1.o first_dl.o -lcore"),
        ("dlink", 1, "second", "q2.o -L. -lsd_nv"), ("so", "libsecond.so", "q2.o second_dl.o -lcore")]),
    "L2-nv": dict(about="as L2, and the host links get the archive as well", expect=["s", "d", "q1", "q2"], orders=[["libcore.so"] + o for o in PLUGINS] + PLUGINS, steps=[
        ("dlink", 0, "core", "s.o d.o"), ("so", "libcore.so", "s.o d.o core_dl.o"),
        ("dlink", 0, "first", "q1.o -L. -lsd_nv"), ("so", "libfirst.so", "q1.o first_dl.o -lcore -lsd_nv"),
        ("dlink", 1, "second", "q2.o -L. -lsd_nv"), ("so", "libsecond.so", "q2.o second_dl.o -lsd_nv -lcore")]),
    "L3": dict(about="static archive in two shared libraries", expect=["s", "p1", "p2"], orders=PLUGINS, steps=[
        ("dlink", 0, "first", "p1.o libs.a"), ("so", "libfirst.so", "p1.o first_dl.o libs.a"),
        ("dlink", 1, "second", "p2.o libs.a"), ("so", "libsecond.so", "p2.o second_dl.o libs.a")]),
    "L3-object": dict(about="OBJECT library in two shared libraries", expect=["s", "p1", "p2"], orders=PLUGINS, steps=[
        ("dlink", 0, "first", "p1.o s.o"), ("so", "libfirst.so", "p1.o s.o first_dl.o"),
        ("dlink", 1, "second", "p2.o s.o"), ("so", "libsecond.so", "p2.o s.o second_dl.o")]),
    "L4": dict(about="static archive PUBLIC through a shared library", expect=["s", "p1", "p2"], orders=PLUGINS, steps=[
        ("dlink", 0, "first", "p1.o libs.a"), ("so", "libfirst.so", "p1.o first_dl.o libs.a"),
        ("dlink", 1, "second", "p2.o libs.a"), ("so", "libsecond.so", "p2.o second_dl.o libfirst.so libs.a")]),
    "L4-shown": dict(about="as L4, the shared library on the device link too", expect=["s", "p1", "p2"], orders=PLUGINS, steps=[
        ("dlink", 0, "first", "p1.o libs.a"), ("so", "libfirst.so", "p1.o first_dl.o libs.a"),
        ("dlink", 1, "second", "p2.o libfirst.so libs.a"), ("so", "libsecond.so", "p2.o second_dl.o libfirst.so libs.a")]),
    "L5": dict(about="host objects in one shared library, the stub alone in another", expect=["s", "d"], orders=[["libfinal.so"]], steps=[
        ("so", "libmid.so", "s.o d.o"),
        ("dlink", 0, "final", "libs.a libd.a"), ("so", "libfinal.so", "final_dl.o -Wl,--no-as-needed -lmid")]),
    "L5-back": dict(about="as L5, and the first depends on the second", expect=["s", "d"], orders=[["libmid.so"]], steps=[
        ("dlink", 0, "final", "s.o d.o"), ("so", "libfinal.so", "final_dl.o -Wl,-z,lazy"), ("so", "libmid.so", "s.o d.o -Wl,--no-as-needed -lfinal")]),
    "L5-own": dict(about="as L5, the stub's library also has a unit of its own", expect=["s", "p1"], orders=[["libfinal.so"]], steps=[
        ("so", "libmid.so", "s.o"),
        ("dlink", 0, "final", "p1.o libs.a"), ("so", "libfinal.so", "p1.o final_dl.o -Wl,--no-as-needed -lmid")]),
    "L5-late": dict(about="as L5-own, dependency the other way round", expect=["s", "p1"], orders=[["libmid.so"]], steps=[
        ("dlink", 0, "final", "p1.o libs.a"), ("so", "libfinal.so", "p1.o final_dl.o"), ("so", "libmid.so", "s.o -Wl,--no-as-needed -lfinal")]),
    "L6": dict(about="executable with static archives", expect=["s", "main_unit"], orders=[["./program"]], steps=[
        ("dlink", 0, "program", "main.o libs.a"), ("exe", "program", "main.o program_dl.o libs.a")]),
    "L6-pull": dict(about="executable; only the stub refers to a member", expect=["s", "d", "main_unit"], orders=[["./program"]], steps=[
        ("dlink", 0, "program", "main.o libs.a libd.a"), ("exe", "program", "main.o program_dl.o libs.a libd.a")]),
    "L7": dict(about="executable with a shared library and the same archive", expect=["s", "p1", "main_unit"], orders=[["./program"]], steps=[
        ("dlink", 0, "first", "p1.o libs.a"), ("so", "libfirst.so", "p1.o first_dl.o libs.a"),
        ("dlink", 1, "program", "main.o libs.a"), ("exe", "program", "main.o program_dl.o -Wl,--no-as-needed libfirst.so libs.a")]),
    "L8": dict(about="dynamic parallelism in two shared libraries", expect=["dp1", "dp2"], orders=PLUGINS, devrt=True, steps=[
        ("dlink", 0, "first", "dp1.o -lcudadevrt"), ("so", "libfirst.so", "dp1.o first_dl.o -lcudadevrt"),
        ("dlink", 1, "second", "dp2.o -lcudadevrt"), ("so", "libsecond.so", "dp2.o second_dl.o -lcudadevrt")]),
    "mixed": dict(about="an archive with a device-only and a full member", expect=["s", "d", "q1", "p2"], orders=[["libcore.so"] + o for o in PLUGINS], steps=[
        ("dlink", 0, "core", "s.o"), ("so", "libcore.so", "s.o core_dl.o"),
        ("dlink", 0, "first", "q1.o -L. -lmixed"), ("so", "libfirst.so", "q1.o first_dl.o libmixed_host.a -lcore"),
        ("dlink", 1, "second", "p2.o -L. -ls_nv"), ("so", "libsecond.so", "p2.o second_dl.o -lcore")]),
}

VARIANTS = {
    "plain": dict(), "local": dict(local=True),
    "hidden": dict(compile="-Xcompiler -fvisibility=hidden -DHIDDEN"),
    "Bsymbolic": dict(link="-Wl,-Bsymbolic"), "as-needed": dict(link="-Wl,--as-needed"), "gc-sections": dict(link="-Wl,--gc-sections"),
    "stripped": dict(strip=True), "relr": dict(link="-Wl,-z,pack-relative-relocs", strip=True), "O2": dict(dlink="-Xcompiler -O2"), "ld-r": dict(join=True), "clang": dict(dlink="-ccbin clang++"),
    "dlto": dict(compile="-dlto", dlink="-dlto"),
}


def run(words, cwd, env=None, check=True, timeout=None):
    words = words if isinstance(words, list) else shlex.split(words)
    try:
        done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        done = subprocess.CompletedProcess(words, 124, "", f"no end after {timeout} s")
    if check and done.returncode != 0:
        raise RuntimeError(f"{words}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done


class Bench:
    def __init__(self, a):
        self.a, self.nvcc = a, os.path.abspath(a.nvcc)
        self.cuda = os.path.dirname(os.path.dirname(self.nvcc))
        self.lib = next(d for d in ("lib64", "lib", "targets/x86_64-linux/lib") if os.path.exists(os.path.join(self.cuda, d, "libcudart.so")))
        self.lib = os.path.join(self.cuda, self.lib)
        self.base = f"{a.arch} {a.flags}"
        self.devrt = any(os.path.exists(os.path.join(self.cuda, d, "libcudadevrt.a")) for d in ("lib64", "lib", "targets/x86_64-linux/lib"))

    def objects(self, variant):
        """Compiles all units once a variant of the compile words."""
        v = VARIANTS[variant]
        out = os.path.join(self.a.out, "objects-" + (variant if v.get("compile") or v.get("join") else "plain"))
        if os.path.exists(out + "/done"):
            return out
        os.makedirs(out, exist_ok=True)
        def one(unit):
            # Without libcudadevrt there is nothing that could link a device-side launch.
            if "PARENT" in UNITS[unit] and not self.devrt:
                return
            run(["cp", os.path.join(HERE, "unit.cu"), f"{unit}.cu"], out)
            run(f"{self.nvcc} {self.base} -Xcompiler -fPIC {v.get('compile', '')} {UNITS[unit]} -dc {unit}.cu -o {unit}.o", out)
            if v.get("join"):
                # `ld -r` of one object: the unit as a partial link leaves it.
                run(f"ld -r {unit}.o -o {unit}.joined.o", out)
                run(f"mv {unit}.joined.o {unit}.o", out)
            run(f"objcopy -j .nv* -j __nv* {unit}.o {unit}_nv.o", out)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(one, UNITS))
        for archive, members in {"libs_nv.a": "s_nv.o", "libsd_nv.a": "s_nv.o d_nv.o", "libs.a": "s.o", "libd.a": "d.o",
                                 "libmixed.a": "s_nv.o d.o", "libmixed_host.a": "d.o"}.items():
            run(f"ar crsD {archive} {members}", out)
        run(f"g++ -I{self.cuda}/include {QUICKSTART}/loader.cpp -o loader -Wl,--no-as-needed -L{self.lib} -lcudart -ldl", out)
        run(f"gcc -shared -fPIC {QUICKSTART}/probe.c -o probe.so -ldl", out)
        open(out + "/done", "w").close()
        return out

    def build(self, name, shim, ld, variant, objects):
        v, layout = VARIANTS[variant], LAYOUTS[name]
        out = os.path.join(self.a.out, f"{name}-{ld}-{variant}-{int(shim[0])}{int(shim[1])}")
        os.makedirs(out, exist_ok=True)
        for entry in os.listdir(objects):
            if entry.endswith((".o", ".a")) or entry in ("loader", "probe.so"):
                target = os.path.join(out, entry)
                if not os.path.exists(target):
                    os.symlink(os.path.join(objects, entry), target)
        env = {k: x for k, x in os.environ.items() if not k.startswith("DLINK_SHIM_")}
        env["DLINK_SHIM_STRICT"] = "1"
        for step in layout["steps"]:
            if step[0] == "dlink":
                _, image, output, words = step
                driver = [os.path.abspath(self.a.shim)] if shim[image] else []
                run(driver + [self.nvcc] + shlex.split(f"{self.base} -Xcompiler -fPIC {v.get('dlink', '')} -dlink {words} -o {output}_dl.o"), out, env)
            else:
                kind, output, words = step[:3]
                shared = "-shared" if kind == "so" else ""
                run(f"g++ -fuse-ld={ld} {shared} -o {output} {words} {v.get('link', '')} -L. -L{self.lib} {'-lcudadevrt ' if self.devrt else ''}-lcudart -Wl,-rpath,{out}:{self.lib}", out)
                if v.get("strip"):
                    run(f"strip {output}", out)
        return out

    def load(self, name, order, out, variant):
        layout = LAYOUTS[name]
        env = dict(os.environ, LD_LIBRARY_PATH=f"{out}:{self.lib}", PROBE_LOG=os.path.join(out, "probe.log"))
        if self.a.gpu:
            runs = [] if order[0] == "./program" else ["run:run_" + u for u in layout["expect"] if u not in ("d",)]
        else:
            runs, env["LD_PRELOAD"] = [], os.path.join(out, "probe.so")
        if os.path.exists(env["PROBE_LOG"]):
            os.remove(env["PROBE_LOG"])
        if order[0] == "./program":
            words = order
        else:
            # Where two images launch from the device, closing one hangs the driver in about every second run, with plain nvcc as well
            # (driver 580.159.04: 8 of 19 runs with plain nvcc, 20 of 37 with dlink-shim; never where none is closed).
            if self.a.gpu and len(order) > 1 and not layout.get("devrt"):
                # Closed and opened again, three times.
                last = "./" + order[-1]
                runs += ["close:" + last, last, "close:" + last, last, "close:" + last, last] + runs
            words = ["./loader"] + (["--local"] if VARIANTS[variant].get("local") else []) + ["./" + l for l in order] + runs
        done = run(words, out, env, check=False, timeout=60)
        if done.returncode != 0:
            return "does not load: " + (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1][-90:]
        if self.a.gpu:
            lines = [l for l in done.stdout.splitlines() if l.startswith("run_")]
            if not lines:
                return "nothing ran"
            bad = [l for l in lines if not l.endswith(" ok")]
            return "ok" if not bad else "; ".join(b.replace("run_", "") for b in bad)
        log = open(env["PROBE_LOG"]).read().splitlines() if os.path.exists(env["PROBE_LOG"]) else []
        kernels = [l.split()[2] for l in log if l.startswith("kernel")]
        times = {u: sum(f"{u}_kernel" in k and f"{len(u) + 7}{u}_kernel" in k for k in kernels) for u in layout["expect"]}
        # Images that may register a unit: those in which its host object is. None may do so twice.
        most = 2 if name.startswith(("L3", "L4", "L7")) else 1
        missing = [u for u, n in times.items() if n == 0]
        twice = [u for u, n in times.items() if n > (most if u == "s" else 1)]
        images = sum(step[0] == "dlink" for step in layout["steps"])
        if len(order) == 1 and order[0] != "./program" and not name.startswith("L5"):
            images = None
        fatbins = sum(l.startswith("fatbin") for l in log)
        silent = images is not None and fatbins < images
        parts = (["no " + ", ".join(missing)] if missing else []) + ([", ".join(twice) + " twice"] if twice else [])
        return "; ".join(parts) if parts else "ok, but an image is silent" if silent else "ok"


def lost(cell):
    """What a cell says is missing, as a set."""
    if cell.startswith("ok"):
        return set()
    if cell.startswith("no "):
        return set(cell[3:].split(";")[0].split(", "))
    # On a GPU: `q1 cudaErrorInvalidResourceHandle; …`.
    return {part.split()[0] for part in cell.split("; ")} if not cell.startswith("does not") else {"everything"}


def main():
    p = argparse.ArgumentParser()
    for name, default in (("nvcc", None), ("shim", None), ("out", None), ("ld", "bfd"), ("layouts", ",".join(LAYOUTS)), ("variants", "plain,local"), ("arch", "-arch=sm_90"), ("flags", ""), ("json", "")):
        p.add_argument("--" + name, default=default, required=default is None)
    p.add_argument("--gpu", action="store_true")
    p.add_argument("--whole", action="store_true", help="no columns with the shim on some of the images only")
    a = p.parse_args()
    a.out = os.path.abspath(a.out)
    start, (bench, rows, worse) = time.monotonic(), (Bench(a), [], [])
    jobs = [(n, ld, v) for v in a.variants.split(",") for ld in a.ld.split(",") for n in a.layouts.split(",") if bench.devrt or not LAYOUTS[n].get("devrt")]
    objects = {v: bench.objects(v) for v in a.variants.split(",")}
    print(f"units compiled after {time.monotonic() - start:.0f} s", file=sys.stderr)
    columns = {"stock": (False, False), "all": (True, True), "first": (True, False), "second": (False, True)}

    def job(key):
        name, ld, variant = key
        two = any(s[0] == "dlink" and s[1] == 1 for s in LAYOUTS[name]["steps"])
        built = {}
        for column, shim in columns.items():
            if column in ("stock", "all") or (two and not a.whole):
                try:
                    built[column] = bench.build(name, shim, ld, variant, objects[variant])
                except RuntimeError as error:
                    built[column] = error
        found = []
        for order in LAYOUTS[name]["orders"]:
            cell = {}
            for column, out in built.items():
                cell[column] = "does not build: " + str(out).strip().splitlines()[-1][-70:] if isinstance(out, RuntimeError) else bench.load(name, order, out, variant)
            found.append(dict(layout=name, ld=ld, variant=variant, order=" ".join(o.replace("lib", "").replace(".so", "") for o in order), **cell))
        return found

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(job, jobs):
            rows += found
    print(f"{'layout':<10} {'ld':<5} {'variant':<11} {'loaded':<22} {'stock':<26} {'shim on all':<16} {'on the first only':<26} on the second only")
    for r in rows:
        print(f"{r['layout']:<10} {r['ld']:<5} {r['variant']:<11} {r['order']:<22} {r['stock']:<26} {r['all']:<16} {r.get('first', '-'):<26} {r.get('second', '-')}")
        # Host code hidden from the image that has its stub can't work, with or without us.
        hopeless = r["variant"] == "hidden" and r["layout"].startswith("L5") and r["stock"].startswith("does not load")
        if r["all"] != "ok" and not hopeless:
            worse.append((r, "all"))
        # With the shim on a part of the images: nothing may be lost that stock has, but what a stock image loses by itself.
        # (A plugin on a core library that works stock by luck, since it was loaded first and took the core's registration,
        # has no such luck once the core library is protected.)
        stock_image = {"first": {"p2", "q2", "dp2", "main_unit", "main"}, "second": {"p1", "q1", "dp1"}}
        worse += [(r, c) for c in ("first", "second") if lost(r.get(c, "ok")) - lost(r["stock"]) - stock_image[c]]
    if a.json:
        json.dump(rows, open(a.json, "w"))
    print(f"all built and loaded after {time.monotonic() - start:.0f} s", file=sys.stderr)
    for r, c in worse:
        print(f"WORSE: {r['layout']} {r['ld']} {r['variant']} [{r['order']}] with the shim on {c}: {r[c]} (stock: {r['stock']})")
    sys.exit(1 if worse else 0)


main()
