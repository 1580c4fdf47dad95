# Sourced by the scripts that build a library for C and C++ programs: what they have in common.
#
# `begin FILE` makes the file's folder, sets `out` to its full path and goes to this repository's
# folder. `cargo_library NAME` builds, and sets `built` to what cargo made by that name.
# `end_if_made TOOL...` ends the script if the same was made of that before, by these tools: it is
# kept beside what cargo made, for all folders that share it. `finish FILE` keeps it and puts it
# where `out` says, unless that is there already with the same content. `work` is a folder for what
# is between.
# shellcheck shell=bash disable=SC2034

begin() {
  mkdir -p "$(dirname "$1")"
  out=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
  # Where .cargo/config.toml is found, also if this folder is reached through a link.
  cd "$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)/.."
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
}

cargo_library() {
  local cargo=${CARGO:-cargo}
  if ! command -v "$cargo" >/dev/null; then
    echo "${0##*/}: cargo is missing: pslite is built with Rust 1.89 or newer" >&2
    exit 1
  fi
  # `make` passes its own default on. Cargo would build libzmq anew for every change of that name.
  [[ ${CXX:-} == g++ ]] && command -v c++ >/dev/null && unset CXX
  # -p pslite: with its default features, as every other build here has them, so that the builds
  # share what they compile. A make around this one has its own jobs to give; flags of the program's
  # own compilers are not libzmq's.
  env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u CFLAGS -u CXXFLAGS \
    "$cargo" build --locked --profile "${PSLITE_CARGO_PROFILE:-release}" --lib \
    -p pslite -p pslite-capi --message-format=json-render-diagnostics >"$work/messages"
  built=$(grep -o "\"[^\"]*/$1\"" "$work/messages" | tail -n 1 | tr -d '"')
  [[ -f $built ]] || { echo "${0##*/}: cargo made no ${1/\\/}" >&2; exit 1; }
}

end_if_made() {
  local folder key
  folder=${built%/*}/linkable
  mkdir -p "$folder"
  # Of several at a time one makes it.
  exec 9>"$folder/lock"
  flock 9
  key=$({
    stat -c '%n %i %y %s' "$built"
    cat "${BASH_SOURCE[0]}" "$0"
    for tool; do "$tool" --version; done
  } | sha256sum)
  made=$folder/${out##*/}-${key%% *}
  [[ ! -f $made ]] || { place "$made"; exit; }
}

finish() {
  rm -f "${made%-*}"-*
  cp "$1" "$made.$$" && mv "$made.$$" "$made"
  place "$made"
}

place() {
  cmp -s "$1" "$out" || { cp "$1" "$out.$$" && mv "$out.$$" "$out"; }
}
