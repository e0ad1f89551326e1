#!/bin/sh
# install.sh PREFIX [DLINK_SHIM]: lays everything out below PREFIX (DESTDIR is put before it): the program, a directory with an `nvcc`
# that is dlink-shim, the CMake module, completions and man pages. DLINK_SHIM is the program to install; by default a release build.
set -eu
[ $# -ge 1 ] || { echo "usage: $0 PREFIX [DLINK_SHIM]" >&2; exit 2; }
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
shim=${2:-$here/../target/release/dlink-shim}
[ -x "$shim" ] || { echo "$0: $shim is no program: run \`cargo build --release\` first, or name one" >&2; exit 1; }
to=${DESTDIR:-}$1
install -d "$to/bin" "$to/lib/dlink-shim" "$to/lib/cmake/DlinkShim" "$to/share/man/man1" "$to/share/doc/dlink-shim" \
  "$to/share/bash-completion/completions" "$to/share/zsh/site-functions" "$to/share/fish/vendor_completions.d"
install -m 755 "$shim" "$to/bin/dlink-shim"
# For PATH. No symlink: ccache would look through it and not know the compiler.
ln -f "$to/bin/dlink-shim" "$to/lib/dlink-shim/nvcc" 2>/dev/null || install -m 755 "$shim" "$to/lib/dlink-shim/nvcc"
"$shim" generate cmake "$to/lib/cmake/DlinkShim"
"$shim" generate man "$to/share/man/man1"
"$shim" generate completions bash > "$to/share/bash-completion/completions/dlink-shim"
"$shim" generate completions zsh > "$to/share/zsh/site-functions/_dlink-shim"
"$shim" generate completions fish > "$to/share/fish/vendor_completions.d/dlink-shim.fish"
install -m 644 "$here"/../README.md "$here"/../CHANGELOG.md "$here"/../LICENSE-* "$to/share/doc/dlink-shim"
echo "installed; for builds that call nvcc: PATH=$1/lib/dlink-shim:\$PATH"
