# Two lines for a Makefile whose library or program grows past 2 GiB of device code (`relocation truncated to fit`): GNU ld and lld get
# a script, written here. For mold: --linker mold. gold wants dlink-shim in front of the link instead: `CXX := dlink-shim g++`.
DLINK_SHIM ?= dlink-shim
LDFLAGS += $(shell $(DLINK_SHIM) link-script -o fatbins-last.ld)
