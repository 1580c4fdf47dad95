# For makefiles that contain ps-lite (MXNet's): what to put on their link line. Include it after
# DEPS_PATH is set.
#
# PS_LDFLAGS_A goes with build/libps.a, which a makefile names itself. libzmq.a is an empty archive,
# kept because build scripts name it: libzmq is inside libps.a.

ifeq ($(USE_KEY32), 1)
$(error pslite has 64-bit keys only: take USE_KEY32=1 away)
endif

PS_SYSTEM_LIBS = -lstdc++ -lgcc_s -lpthread -ldl -lrt -lm
PS_LDFLAGS_SO = -L$(DEPS_PATH)/lib -lzmq $(PS_SYSTEM_LIBS)
PS_LDFLAGS_A = $(DEPS_PATH)/lib/libzmq.a $(PS_SYSTEM_LIBS)
