# Builds what programs link that contain ps-lite in their source tree: this folder stands in place of their
# 3rdparty/ps-lite (docs/relink.md).
#
#   make         build/libps.a, and deps/lib/libzmq.a, which is empty: libzmq is inside libps.a
#   make ps      the same
#   make clean   removes build/ (what cargo built stays: `cargo clean`)
#
# DEPS_PATH=... is where deps/ is. CXX compiles libzmq. What else those programs' builds pass (ADD_CFLAGS, USE_RDMA,
# USE_FABRIC, USE_UCX, WGET, ZMQ_URL, PROTOC, ...) has nothing to act on and is allowed: no C++ of the archive is seen
# from outside, and nothing is downloaded but Rust's packages, by cargo.

ifdef config
include $(config)
endif

DEPS_PATH ?= $(CURDIR)/deps
include make/ps.mk

.PHONY: all ps clean FORCE

all: ps

ps: build/libps.a $(DEPS_PATH)/lib/libzmq.a

# Cargo knows what it depends on. The file changes only if its content does.
build/libps.a: FORCE
	scripts/static-library $@

$(DEPS_PATH)/lib/libzmq.a:
	mkdir -p $(DEPS_PATH)/lib $(DEPS_PATH)/include
	$(AR) rc $@

clean:
	rm -rf build
