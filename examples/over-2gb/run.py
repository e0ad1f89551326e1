#!/usr/bin/env python3
"""Builds a library of more than 2 GiB with every linker, once as ever and once through dlink-shim, and tries it.

    python3 run.py --nvcc /usr/local/cuda/bin/nvcc --shim dlink-shim [--linkers bfd,gold,lld,mold] [--gpu]

It needs nvcc, g++ and python3, and the linkers named. The device code is that of four real translation units with sparse
filler in between, so it takes no disk; the libraries do: at most about 5 GiB at once (gold), gone at the end. `--size 64M` does the
same without the failure, with placing from half of that on. A linker in a directory of its own: `lld:/path/to/dir` (holding ld.lld).
"""
import argparse
import os
import re
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
GIB = 1 << 30
OVERFLOW = re.compile(r"relocation truncated to fit|relocation overflow|out of range|overflow", re.I)


def size(text):
    unit = {"K": 1 << 10, "M": 1 << 20, "G": GIB}.get(text[-1].upper())
    return int(float(text[:-1]) * unit) if unit else int(text)


def run(words, may_fail=False, **more):
    done = subprocess.run([str(w) for w in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    if done.returncode and not may_fail:
        sys.exit(f"{' '.join(map(str, words))}\n{done.stdout}\nFAILED: exit code {done.returncode}")
    return done


def filler(path, symbol, section, length, machine):
    """An ELF object of one section and one hidden symbol at its start; the section's bytes are a hole in the file."""
    names = b"\0" + b"\0".join(n.encode() for n in (section, ".symtab", ".strtab", ".shstrtab", ".note.GNU-stack")) + b"\0"
    name = lambda n: names.index(b"\0" + n.encode() + b"\0") + 1
    strings = b"\0" + symbol.encode() + b"\0"
    symbols = struct.pack("<IBBHQQ", 0, 0, 0, 0, 0, 0) + struct.pack("<IBBHQQ", 1, 0x11, 2, 1, 0, length)
    data = 4096
    tail = data + length
    tail += -tail % 8
    table = symbols + names + strings
    headers = tail + len(table) + -len(table) % 8
    rows = [
        (0,) * 10,
        (name(section), 1, 2, 0, data, length, 0, 0, 8, 0),
        (name(".symtab"), 2, 0, 0, tail, len(symbols), 3, 1, 8, 24),
        (name(".strtab"), 3, 0, 0, tail + len(symbols) + len(names), len(strings), 0, 0, 1, 0),
        (name(".note.GNU-stack"), 1, 0, 0, tail, 0, 0, 0, 1, 0),
        (name(".shstrtab"), 3, 0, 0, tail + len(symbols), len(names), 0, 0, 1, 0),
    ]
    with open(path, "wb") as f:
        f.truncate(headers)
        header = struct.pack("<HHIQQQIHHHHHH", 1, machine, 1, 0, 0, headers, 0, 64, 0, 0, 64, len(rows), 5)
        f.write(b"\x7fELF\2\1\1" + bytes(9) + header)
        f.seek(tail)
        f.write(table)
        f.seek(headers)
        for row in rows:
            f.write(struct.pack("<IIQQQQIIQQ", *row))


def fillers(out, total, machine):
    """Objects of linked and of relocatable device code, half each; an eighth of it is to go through an archive."""
    out.mkdir(parents=True)
    lines = []
    for kind, count, share in (("object", 7, total * 7 // 8), ("member", 2, total // 8)):
        for i in range(count):
            section = ".nv_fatbin" if i % 2 == 0 else "__nv_relfatbin"
            symbol = f"filler_{kind}_{i}"
            filler(out / f"{kind}{i}.o", symbol, section, share // count, machine)
            lines.append(symbol)
    text = "".join(f'extern "C" __attribute__((visibility("hidden"))) const char {s}[];\n' for s in lines)
    (out / "fillers.h").write_text(text + f"static const char *const volatile fillers[] = {{{', '.join(lines)}}};\n")


def sections_and_segments(path):
    with open(path, "rb") as f:
        head = f.read(64)
        phoff, shoff = struct.unpack_from("<QQ", head, 32)
        phnum, _, shnum, strndx = struct.unpack_from("<HHHH", head, 56)
        f.seek(phoff)
        table = f.read(56 * phnum)
        segments = [struct.unpack_from("<IIQQQQQQ", table, 56 * i) for i in range(phnum)]
        f.seek(shoff)
        table = f.read(64 * shnum)
        rows = [struct.unpack_from("<IIQQQQIIQQ", table, 64 * i) for i in range(shnum)]
        f.seek(rows[strndx][4])
        names = f.read(rows[strndx][5])
    named = [(names[r[0] : names.index(b"\0", r[0])].decode(), r) for r in rows]
    return named, [s for s in segments if s[0] == 1]


def look(path):
    """The sections must be read-only, in a segment that holds nothing else and shares no page with another."""
    named, segments = sections_and_segments(path)
    ours = {"__nv_relfatbin", ".nv_fatbin"}
    mine = [r for n, r in named if n in ours]
    assert len(mine) == 2, f"{path}: {[n for n, _ in named]}"
    inside = lambda r, s: s[3] <= r[3] and r[3] + r[5] <= s[3] + s[6]
    homes = {s for r in mine for s in segments if inside(r, s)}
    for home in homes:
        assert home[1] == 4, f"{path}: segment flags are {home[1]}, not read-only"
        # Empty sections and those of thread-local zeroes take no place.
        others = [n for n, r in named if r[2] & 2 and r[5] and not r[2] & 0x400 and n not in ours and inside(r, home)]
        assert not others, f"{path}: {others} in the same segment"
        for other in set(segments) - homes:
            apart = (other[3] + other[6] - 1) // 4096 < home[3] // 4096 or other[3] // 4096 > (home[3] + home[6] - 1) // 4096
            assert apart, f"{path}: a page of device code is shared with another segment"
    assert homes, f"{path}: device code is in no segment"
    bss = [r for n, r in named if n == ".bss"]
    assert bss and bss[0][1] == 8, f"{path}: .bss takes room in the file"
    last = max(r[3] for n, r in named if r[2] & 2 and not n.startswith("."))
    assert max(r[3] for _, r in named if r[2] & 2) == max(r[3] for r in mine) >= last, f"{path}: device code is not last"


class Bench:
    def __init__(self, args):
        self.args, self.out = args, Path(args.out).resolve()
        self.nvcc, self.shim = (p and os.path.abspath(p) for p in map(shutil.which, (args.nvcc or "nvcc", args.shim or "dlink-shim")))
        if not self.shim or not (self.nvcc or args.cross):
            sys.exit("no dlink-shim or no nvcc: name them by --shim and --nvcc")
        self.over = args.size > 2 * GIB
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("DLINK_SHIM_")}
        self.env["TMPDIR"] = str(self.out / "tmp")
        if not self.over:
            self.env["DLINK_SHIM_PLACE_LIMIT"] = str(args.size // 2)
        shutil.rmtree(self.out, ignore_errors=True)
        (self.out / "tmp").mkdir(parents=True)
        fillers(self.out / "fillers", args.size, 183 if args.cross else 62)
        self.objects = sorted((self.out / "fillers").glob("object*.o"))
        members = sorted((self.out / "fillers").glob("member*.o"))
        if not args.cmake:
            run(["ar", "crs", self.out / "libmembers.a", *members])

    def compile(self):
        cxx = self.args.cross or "g++"
        words = ["-g", "-O1", "-fPIC", f'-DFILLERS="{self.out}/fillers/fillers.h"', "-c", HERE / "selftest.cpp", "-o", "selftest.o"]
        run([cxx, *words], cwd=self.out)
        if self.args.cross:
            self.parts = [*self.objects, "selftest.o"]
            return
        cuda = ["-gencode=arch=compute_90,code=[sm_90,compute_90]", "-Xcompiler=-fPIC", *self.args.nvcc_words]
        for name, value, more in (("first", 11, ["-c"]), ("last", 13, ["-c"]), ("rdc", 12, ["-dc", "-DNEEDS_HELPER"])):
            run([self.nvcc, *cuda, *more, f"-DNAME={name}", f"-DVALUE={value}", HERE / "kernel.cu", "-o", f"{name}.o"], cwd=self.out)
        run([self.nvcc, *cuda, "-dc", HERE / "helper.cu", "-o", "helper.o"], cwd=self.out)
        run([self.nvcc, *cuda, "-dlink", "rdc.o", "helper.o", "-o", "dlink.o"], cwd=self.out)
        self.parts = ["first.o", *self.objects, "selftest.o", "rdc.o", "helper.o", "dlink.o", "last.o"]

    def tools(self):
        """The program that loads libraries, and the probe."""
        top = Path(os.path.realpath(self.nvcc)).parent.parent
        self.cuda = [d for d in (top / "lib64", top / "lib", top / "targets/x86_64-linux/lib") if d.is_dir()]
        directories = [f"-L{d}" for d in self.cuda]
        run([self.nvcc, "-x", "cu", *self.args.nvcc_words, "-cudart=shared", HERE / "check.cpp", "-o", self.out / "check", *directories, "-ldl"])
        run(["gcc", "-shared", "-fPIC", HERE.parent / "quickstart/probe.c", "-o", self.out / "probe.so", "-ldl"])
        self.libraries = [*directories, "-lcudart"]

    def link(self, front, linker, more=()):
        name, _, directory = linker.partition(":")
        choice = [f"-fuse-ld={name}", *([f"-B{directory}"] if directory else [])]
        words = [self.args.cross or self.args.cxx, "-shared", *choice, "-Wl,--build-id=sha1", *more, "-o", "libbig.so"]
        words += [*self.parts, "-L.", "-lmembers", *self.libraries]
        start = time.time()
        done = run([*front, *words], may_fail=True, cwd=self.out, env=self.env)
        return done, time.time() - start

    def expect_overflow(self, done, what):
        # lld reads a 32-bit reference of aarch64 as signed or unsigned, so there it reaches 4 GiB.
        if not self.over or (self.args.cross and done.returncode == 0):
            return "links" if done.returncode == 0 else sys.exit(done.stdout)
        line = next((l for l in done.stdout.splitlines() if OVERFLOW.search(l) and "warning" not in l), None)
        if done.returncode == 0 or line is None:
            sys.exit(f"{what} without dlink-shim was to fail and did not:\n{done.stdout[-2000:]}")
        print(f"  stock: {line.strip()[:150]}")
        return "overflow"

    def try_out(self, library, what):
        look(library)
        if self.args.cross:
            return
        log = self.out / "probe.log"
        log.unlink(missing_ok=True)
        env = {**self.env, "LD_LIBRARY_PATH": ":".join(map(str, self.cuda)), "LD_PRELOAD": str(self.out / "probe.so"), "PROBE_LOG": str(log)}
        said = run([self.out / "check", *(["--gpu"] if self.args.gpu else []), library], env=env).stdout
        registered = {m for m in re.findall(r"(first|rdc|last)_kernel", log.read_text())}
        if registered != {"first", "rdc", "last"}:
            sys.exit(f"{what}: only {sorted(registered)} registered\n{said}")
        print(f"  {what}: {len(registered)} kernels registered; " + ", ".join(said.split("\n")).rstrip(", "))

    def build_id(self, library):
        return re.search(r"Build ID: (\w+)", run(["readelf", "-n", library]).stdout).group(1)

    def whole(self, linker, library):
        """A linked library: as it is, after objcopy, for gdb, and after strip."""
        self.try_out(library, "linked")
        identity = self.build_id(library)
        if shutil.which("gdb") and not self.args.cross and not self.args.cmake:
            said = run(["gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-ex", "info line self_test", library]).stdout
            assert re.search(r'Line \d+ of ".*selftest.cpp"', said), said
            print("  gdb: " + said.strip().splitlines()[-1][:100].replace(str(HERE) + "/", ""))
        objcopy, strip = ("objcopy", "strip") if not self.args.cross else (self.args.cross.replace("g++", t) for t in ("objcopy", "strip"))
        run([objcopy, "--strip-debug", "--add-gnu-debuglink=/dev/null", library])
        self.try_out(library, "after objcopy")
        run([strip, library])
        self.try_out(library, "after strip")
        assert self.build_id(library) == identity, f"{linker}: another build id"

    def direct(self, linker):
        done, _ = self.link([], linker)
        stock = self.expect_overflow(done, linker)
        library = self.out / "libbig.so"
        library.unlink(missing_ok=True)
        done, seconds = self.link([self.shim], linker)
        if done.returncode or done.stdout:
            sys.exit(f"{linker} through dlink-shim: exit code {done.returncode}\n{done.stdout[-2000:]}")
        print(f"  dlink-shim: links in {seconds:.0f} s, {library.stat().st_size / GIB:.2f} GiB")
        self.whole(linker, library)
        library.unlink()
        works = "links, device code last, before and after strip (not run)" if self.args.cross else "links, loads, registers, passes its self-test, before and after strip"
        return f"{linker.partition(':')[0]:6} {stock:10} {works}"

    def cmake(self, linker, module):
        """The CMake project with Ninja: stock, then with the launcher, or with the module alone."""
        build = self.out / "build"
        library = build / "libbig.so"
        given = [f"-DFILLERS={self.out}/fillers", f"-DCMAKE_CUDA_COMPILER={self.nvcc}", "-DCMAKE_CUDA_ARCHITECTURES=90"]
        given += [f"-DCMAKE_SHARED_LINKER_FLAGS=-fuse-ld={linker}", "-DCMAKE_CXX_LINKER_LAUNCHER=", "-DPLACE="]
        run(["cmake", "-S", HERE, "-B", build, "-G", "Ninja", *given], env=self.env)
        stock = self.expect_overflow(run(["cmake", "--build", build], may_fail=True, env=self.env), f"CMake with {linker}")
        library.unlink(missing_ok=True)
        how = [f"-DPLACE={module}", f"-DDlinkShim_EXECUTABLE={self.shim}"] if module else [f"-DCMAKE_CXX_LINKER_LAUNCHER={self.shim}"]
        run(["cmake", build, *how], env=self.env)
        run(["cmake", "--build", build], env=self.env)
        self.whole(linker, library)
        shutil.rmtree(build)
        return f"{linker:6} {stock:10} CMake with Ninja, {'dlink_shim_place_fatbins()' if module else 'launcher'}: as above"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nvcc")
    parser.add_argument("--shim")
    parser.add_argument("--linkers", default="bfd,gold,lld,mold")
    parser.add_argument("--size", type=size, default=size("2.3G"), help="bytes of device code (2.3G)")
    parser.add_argument("--out", default="over-2gb.out", help="a directory to make, and to remove at the end")
    parser.add_argument("--gpu", action="store_true", help="launch the kernels, too")
    parser.add_argument("--cxx", default="g++", help="the compiler that links")
    parser.add_argument("--cross", help="a compiler for aarch64: links host code and filler, runs nothing")
    parser.add_argument("--cmake", action="store_true", help="CMake with Ninja, by launcher and (but for gold) by the module")
    parser.add_argument("--nvcc-words", default="", type=str.split, help="more words for nvcc's compilations")
    args = parser.parse_args()
    bench = Bench(args)
    try:
        bench.libraries = []
        if not args.cmake:
            bench.compile()
        if not args.cross:
            bench.tools()
        rows = []
        for linker in args.linkers.split(","):
            print(linker, flush=True)
            name, _, directory = linker.partition(":")
            if not shutil.which(f"ld.{name}", path=directory or None):
                rows.append(f"{name:6} not on this machine")
                continue
            if args.cmake:
                rows.append(bench.cmake(linker, None))
                if linker != "gold":
                    rows.append(bench.cmake(linker, HERE.parent.parent / "wrapper-scripts/cmake/DlinkShim.cmake"))
            else:
                rows.append(bench.direct(linker))
        print("\nlinker stock      dlink-shim", *rows, sep="\n")
    finally:
        shutil.rmtree(bench.out, ignore_errors=True)


if __name__ == "__main__":
    main()
