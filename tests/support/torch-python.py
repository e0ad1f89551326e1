#!/usr/bin/env python3
"""Lays the Python files that torch.utils.cpp_extension needs, from PyPI's torch wheel, beside empty stand-ins for the rest.

    torch-python.py WHEEL DEST CUDA_VERSION

The wheel may be any platform's: these files are the same in all (macOS' has no CUDA in it and is the smallest). What the extension
links against (libtorch, libc10, …) is made of nothing by gcc, since no code of it runs here.
"""
import os, subprocess, sys, zipfile

FILES = ["utils/cpp_extension.py", "utils/_cpp_extension_versioner.py", "_appdirs.py", "torch_version.py"]
MADE = {
    "__init__.py": "from . import backends, cuda, version, xpu\n",
    "backends.py": "class mps:\n    def is_built(): return False\n",
    "xpu.py": "def _is_compiled(): return False\n",
    "version.py": "__version__ = '{torch}'\ncuda = '{cuda}'\nhip = None\nrocm = None\n",
    "cuda.py": "def _is_compiled(): return True\ndef is_available(): return False\ndef device_count(): return 0\n",
    "_utils_internal.py": "import os\ndef get_file_path(*p): return os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), *p)\n",
    "utils/__init__.py": "",
    "utils/_filelock.py": "class FileLock: pass\n",
}


def main():
    wheel, dest, cuda = sys.argv[1:]
    torch = os.path.join(dest, "torch")
    archive = zipfile.ZipFile(wheel)
    for name in FILES + [n[6:] for n in archive.namelist() if n.startswith("torch/_vendor/packaging/") or n == "torch/_vendor/__init__.py"]:
        place = os.path.join(torch, name)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "wb") as out:
            out.write(archive.read("torch/" + name))
    version = os.path.basename(wheel).split("-")[1]
    for name, text in MADE.items():
        with open(os.path.join(torch, name), "w") as out:
            out.write(text.format(torch=version, cuda=cuda) if name == "version.py" else text)
    os.makedirs(torch + "/include", exist_ok=True)
    os.makedirs(torch + "/lib", exist_ok=True)
    for name in ("c10", "torch", "torch_cpu", "torch_python", "c10_cuda", "torch_cuda"):
        subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "/dev/null", "-o", f"{torch}/lib/lib{name}.so"], check=True)


main()
