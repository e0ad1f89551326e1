# SCRAM's own sequence for a library with device code and for plugins on it (layout L1).
#   NVCC   the compiler driver, as SCRAM's Makefile.cuda names it     CUDA  the toolkit     SRC  the sources
ARCH ?= -arch=sm_90
CUDA_FLAGS = $(ARCH) $(EXTRA) --compiler-options '-O2 -fPIC'
LINK = -L. -L$(CUDA)/lib64 -lcudart
all: libcore.so libplugin.so libsecond.so loader probe.so

core.o: $(SRC)/core.cu
	$(NVCC) -dc $(CUDA_FLAGS) $< -o $@
plugin.o: $(SRC)/plugin.cu
	$(NVCC) -dc $(CUDA_FLAGS) -DNAME=plugin $< -o $@
second.cu: $(SRC)/plugin.cu
	cp $< $@
second.o: second.cu
	$(NVCC) -dc $(CUDA_FLAGS) -DNAME=second $< -o $@

libcore_nv.a: core.o
	objcopy -j '.nv*' -j '__nv*' core.o core_nv.o
	ar crs $@ core_nv.o
core_dlink.o: core.o
	$(NVCC) -dlink -L$(CUDA)/lib64 $(CUDA_FLAGS) core.o -o $@
libcore.so: core.o core_dlink.o
	g++ -shared -o $@ core.o core_dlink.o $(LINK)

lib%.so: %.o libcore_nv.a libcore.so
	$(NVCC) -dlink -L. -lcore_nv -L$(CUDA)/lib64 $(CUDA_FLAGS) $*.o -o $*_dlink.o
	g++ -shared -o $@ $*.o $*_dlink.o -lcore $(LINK)

loader: $(SRC)/loader.cpp
	g++ -I$(CUDA)/include $< -o $@ -L$(CUDA)/lib64 -lcudart -ldl -Wl,--no-as-needed
probe.so: $(SRC)/probe.c
	gcc -shared -fPIC $< -o $@ -ldl
.SECONDARY:
