# Builds what programs link that contain ps-lite in their source tree: this folder stands in place
# of their 3rdparty/ps-lite (docs/relink.md).
#
#   make         build/libps.a, and deps/lib/libzmq.a, which is empty: libzmq is inside libps.a
#   make ps      the same
#   make install libps.a, libps.so.1 with the link libps.so, the headers, and files for pkg-config
#                and CMake, below PREFIX (/usr/local); DESTDIR goes before it, for who makes
#                packages
#   make clean   removes build/ (what cargo built stays: `cargo clean`)
#
# DEPS_PATH=... is where deps/ is. CXX compiles libzmq. What else those programs' builds pass
# (ADD_CFLAGS, USE_RDMA, USE_FABRIC, USE_UCX, WGET, ZMQ_URL, PROTOC, ...) has nothing to act on and
# is allowed: no C++ of the archive is seen from outside, and nothing is downloaded but Rust's
# packages, by cargo.

ifdef config
include $(config)
endif

DEPS_PATH ?= $(CURDIR)/deps
include make/ps.mk

PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include

.PHONY: all ps install clean FORCE

all: ps

ps: build/libps.a $(DEPS_PATH)/lib/libzmq.a

# Cargo knows what it depends on. The file changes only if its content does.
build/libps.a: FORCE
	scripts/static-library $@

build/libps.so.1: FORCE
	scripts/shared-library $@

$(DEPS_PATH)/lib/libzmq.a:
	mkdir -p $(DEPS_PATH)/lib $(DEPS_PATH)/include
	$(AR) rc $@

# The files for pkg-config and CMake are those of CMakeLists.txt, filled in here.
empty :=
version = $(shell sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
include_from_libdir = $(shell realpath -ms --relative-to='$(LIBDIR)' '$(INCLUDEDIR)')
system_libraries = $(subst $(empty) ,;,$(patsubst -l%,%,$(PS_SYSTEM_LIBS)))
fill = sed -e 's,@prefix@,$(PREFIX),' -e 's,@libdir@,$(LIBDIR),' \
	-e 's,@includedir@,$(INCLUDEDIR),' -e 's,@version@,$(version),' \
	-e 's,@link_flags@,$(PS_SYSTEM_LIBS),' -e 's,@system_libraries@,$(system_libraries),' \
	-e 's,@include_from_libdir@,$(include_from_libdir),'

install: build/libps.a build/libps.so.1
	install -d '$(DESTDIR)$(LIBDIR)/pkgconfig' '$(DESTDIR)$(LIBDIR)/cmake/pslite' \
	  '$(DESTDIR)$(INCLUDEDIR)'
	install -m 644 build/libps.a '$(DESTDIR)$(LIBDIR)'
	install -m 755 build/libps.so.1 '$(DESTDIR)$(LIBDIR)'
	ln -sf libps.so.1 '$(DESTDIR)$(LIBDIR)/libps.so'
	cd include && find . -name '*.h' -exec \
	  install -D -m 644 '{}' '$(abspath $(DESTDIR)$(INCLUDEDIR))/{}' ';'
	for name in pslite pslite-shared; do \
	  $(fill) cmake/$$name.pc.in >'$(DESTDIR)$(LIBDIR)/pkgconfig/'$$name.pc || exit; done
	for name in pslite-config pslite-config-version; do \
	  $(fill) cmake/$$name.cmake.in >'$(DESTDIR)$(LIBDIR)/cmake/pslite/'$$name.cmake || exit; done

clean:
	rm -rf build
