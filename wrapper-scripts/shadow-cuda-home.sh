#!/bin/sh
# shadow-cuda-home.sh REAL DEST [DLINK_SHIM]: a CUDA_HOME like REAL whose bin/nvcc is dlink-shim. Run by the tests (PyTorch).
# For builds that take a toolkit's directory and not a compiler. Everything else in DEST is a symlink into REAL. bin/nvcc is a hard
# link or a copy, since ccache would look through a symlink; bin/dlink-shim.conf tells it the real nvcc.
set -eu
[ $# -ge 2 ] || { echo "usage: $0 REAL DEST [DLINK_SHIM]" >&2; exit 2; }
real=$(CDPATH= cd -- "$1" && pwd) dest=$2 shim=${3:-$(command -v dlink-shim)}
[ -x "$real/bin/nvcc" ] || { echo "$0: $real/bin/nvcc is no program" >&2; exit 1; }
[ -d "$dest" ] && [ ! -f "$dest/bin/dlink-shim.conf" ] && { echo "$0: $dest is there and is not mine" >&2; exit 1; }
mkdir -p "$dest/bin"
for entry in "$real"/*; do
  [ "${entry##*/}" = bin ] || ln -sfn "$entry" "$dest/${entry##*/}"
done
for entry in "$real"/bin/*; do
  [ "${entry##*/}" = nvcc ] || ln -sfn "$entry" "$dest/bin/${entry##*/}"
done
ln -fL "$shim" "$dest/bin/nvcc" 2>/dev/null || cp -fL "$shim" "$dest/bin/nvcc"
echo "DLINK_SHIM_NVCC=$real/bin/nvcc" > "$dest/bin/dlink-shim.conf"
