#!/bin/sh
# Checks that the core is pure; see src/lib.rs. Run from anywhere; needs only cargo.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$here/../../../target}"

# 1. Nothing under the core links std.
cargo check --quiet --locked --manifest-path "$here/Cargo.toml"

# 2. The check can fail: the same with std in the graph has to be refused, for that very reason.
if said=$(cargo check --locked --manifest-path "$here/Cargo.toml" --features with-std 2>&1); then
    echo "core purity: a graph with std was accepted, so the check proves nothing" >&2
    exit 1
fi
case $said in
*'duplicate lang item `panic_impl`'*) ;;
*)
    echo "core purity: a graph with std was refused for another reason:" >&2
    echo "$said" >&2
    exit 1
    ;;
esac

# 3. The core depends on libm and nothing else, and forbids unsafe code.
deps=$(cargo tree --locked --manifest-path "$here/../Cargo.toml" -e normal,build --prefix none \
    --format '{lib}' | sort -u | tr '\n' ' ')
if [ "$deps" != "isotherm_core libm " ]; then
    echo "core purity: dependencies are '$deps', expected only libm" >&2
    exit 1
fi
grep -qx '#!\[forbid(unsafe_code)\]' "$here/../src/lib.rs"
grep -qx '#!\[no_std\]' "$here/../src/lib.rs"
echo "core purity: ok"
