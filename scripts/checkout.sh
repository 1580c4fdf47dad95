# Read by the other scripts, not run: sets `root` to the checkout, and refuses one in which nothing
# could be preloaded.
#
# The system's loader takes blanks and colons in LD_PRELOAD for separators and knows no escape
# (ld.so(8)). So neither the demo nor the tests can work below such a path, and it is better to say
# so than to fail after minutes.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if [[ $root == *[[:space:]:]* ]]; then
  echo "${0##*/}: the path of this checkout, '$root', has a blank or a colon: LD_PRELOAD cannot" \
    "name a library there. Move the checkout, or clone it anew, to a path without." >&2
  exit 2
fi
