#!/usr/bin/env python3
"""Lays a CUDA compiler toolkit (nvcc, nvlink, ptxas, headers, the CUDA runtime) under a directory, for tests and the quickstart.

    fetch-toolkit.py VERSION DIRECTORY        VERSION: 11.8, 12.4, 13.0 or 13.5 (any 13.x that PyPI has)

13.x comes from PyPI's nvidia-* packages. 11.8 and 12.4 come from Debian's nvidia-cuda-toolkit, with the runtime's headers
and library from PyPI; both are fetched with pip and apt as this machine has them set up. Prints the path of nvcc. Does nothing
when the toolkit is already there.
"""
import glob, os, shutil, subprocess, sys, tempfile, zipfile

DEBIAN = {
    "11.8": ("11.8.89~11.8.0-5~deb12u1", "bookworm", ["nvidia-cuda-runtime-cu11==11.8.89", "nvidia-cuda-nvcc-cu11==11.8.89"]),
    "12.4": ("12.4.131~12.4.1-2", "trixie", ["nvidia-cuda-runtime-cu12==12.4.127", "nvidia-cuda-nvcc-cu12==12.4.131"]),
}
PROFILE = """TOP = $(_HERE_)/..
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice
PATH += $(_HERE_):
INCLUDES += "-I$(TOP)/include" $(_SPACE_)
LIBRARIES =+ $(_SPACE_) "-L$(TOP)/lib64"
CUDAFE_FLAGS +=
PTXAS_FLAGS +=
"""


def run(*command, **kwargs):
    subprocess.run(command, check=True, stdout=sys.stderr, **kwargs)


def unpack_wheels(packages, tmp):
    wheels, site = os.path.join(tmp, "wheels"), os.path.join(tmp, "site")
    run(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "-d", wheels, *packages)
    for wheel in glob.glob(wheels + "/*.whl"):
        zipfile.ZipFile(wheel).extractall(site)
    return site


def from_pypi(version, tmp, dest):
    parts = ["nvcc", "crt", "runtime"]
    packages = [f"nvidia-cuda-{p}=={version}.*" for p in parts] + [f"nvidia-nvvm=={version}.*", "nvidia-cuda-cccl", "nvidia-cuda-cuobjdump"]
    site = unpack_wheels(packages, tmp)
    shutil.copytree(site + "/nvidia/cu13", dest, symlinks=True, dirs_exist_ok=True)
    for program in glob.glob(dest + "/bin/*") + glob.glob(dest + "/nvvm/bin/*"):
        if os.path.isfile(program):
            os.chmod(program, 0o755)


def debian_mirror():
    """The mirror that this machine's apt uses, whatever form its sources have."""
    for name in glob.glob("/etc/apt/sources.list.d/*.sources") + ["/etc/apt/sources.list"] + glob.glob("/etc/apt/sources.list.d/*.list"):
        for line in open(name) if os.path.exists(name) else []:
            words = line.split()
            if words and words[0] in ("URIs:", "deb"):
                for word in words[1:]:
                    if "://" in word and "security" not in word:
                        return word
    sys.exit("fetch-toolkit.py: no Debian mirror in apt's sources")


def from_debian(version, tmp, dest):
    package, suite, wheels = DEBIAN[version]
    sources, lists, cache, debs = (os.path.join(tmp, n) for n in ("sources.list", "lists", "cache", "debs"))
    with open(sources, "w") as out:
        out.write(f"deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] {debian_mirror()} {suite} main contrib non-free\n")
    for folder in (lists + "/partial", cache + "/archives/partial", debs):
        os.makedirs(folder)
    apt = ["apt-get", "-qq", f"-oDir::Etc::sourcelist={sources}", "-oDir::Etc::sourceparts=-", f"-oDir::State::Lists={lists}",
           f"-oDir::Cache={cache}", "-oAPT::Sandbox::User=root", "-oAcquire::Retries=3"]
    run(*apt, "update")
    run(*apt, "download", f"nvidia-cuda-toolkit={package}", cwd=debs)
    root = os.path.join(tmp, "root")
    run("dpkg", "-x", glob.glob(debs + "/*.deb")[0], root)
    for folder in ("bin", "nvvm", "include", "lib"):
        os.makedirs(os.path.join(dest, folder), exist_ok=True)
    private = root + "/usr/lib/nvidia-cuda-toolkit"
    for name in ("nvcc", "cicc"):
        shutil.copy2(f"{private}/bin/{name}", dest + "/bin/")
    shutil.copytree(private + "/bin/crt", dest + "/bin/crt", dirs_exist_ok=True)
    shutil.copytree(private + "/libdevice", dest + "/nvvm/libdevice", dirs_exist_ok=True)
    for name in ("cudafe++", "fatbinary", "nvlink", "ptxas", "bin2c", "cuobjdump"):
        shutil.copy2(f"{root}/usr/bin/{name}", dest + "/bin/")
    site = unpack_wheels(wheels, tmp)
    for part in glob.glob(site + "/nvidia/*/"):
        for folder in ("include", "lib"):
            if os.path.isdir(part + folder):
                shutil.copytree(part + folder, os.path.join(dest, folder), dirs_exist_ok=True)
    with open(dest + "/bin/nvcc.profile", "w") as out:
        out.write(PROFILE)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    version, dest = sys.argv[1], os.path.abspath(sys.argv[2])
    nvcc = dest + "/bin/nvcc"
    if not os.path.exists(nvcc):
        os.makedirs(os.path.dirname(dest), exist_ok=True)
        # Made beside its place and moved there whole, so that a broken download leaves nothing that looks like a toolkit.
        with tempfile.TemporaryDirectory(dir=os.path.dirname(dest), prefix="fetch-") as tmp:
            made = os.path.join(tmp, "toolkit")
            os.makedirs(made)
            (from_debian if version in DEBIAN else from_pypi)(version, tmp, made)
            os.symlink("lib", made + "/lib64")
            runtime = sorted(glob.glob(made + "/lib/libcudart.so.*"))[0]
            os.symlink(os.path.basename(runtime), made + "/lib/libcudart.so")
            # nvlink looks for the compiler of link-time optimisation here; the wheels keep it elsewhere.
            for compiler in glob.glob(made + "/lib/libnvvm.so.*"):
                os.makedirs(made + "/nvvm/lib64", exist_ok=True)
                os.symlink("../../lib/" + os.path.basename(compiler), made + "/nvvm/lib64/libnvvm.so")
            subprocess.run([made + "/bin/nvcc", "--version"], check=True, stdout=subprocess.DEVNULL)
            os.rename(made, dest)
    print(nvcc)


main()
