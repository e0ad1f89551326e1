"""The extension: a kernel of its own, and a use of the core library (CORE is its directory)."""
import os

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

here, core = os.path.dirname(os.path.abspath(__file__)), os.environ["CORE"]
os.chdir(here)  # setuptools looks for what to build where it is run
setup(
    name="plugin",
    ext_modules=[
        CUDAExtension(
            "plugin",
            [os.path.join(here, "host.cpp"), os.path.join(here, "plugin.cu")],
            library_dirs=[core],
            libraries=["core"],
            dlink=True,
            dlink_libraries=["core_nv"],
            extra_compile_args={"cxx": ["-O2"], "nvcc": ["-rdc=true", "-O2", *os.environ.get("EXTRA_NVCC", "").split()]},
        )
    ],
    cmdclass={"build_ext": BuildExtension},
)
