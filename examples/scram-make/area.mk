# One SCRAM area, by the rules of SCRAM's Makefile.cuda and Makefile.rules: a library with device code is compiled by `nvcc -dc`,
# device-linked against the `_nv` archives of what it depends on (this area's and the release's), linked by g++, and leaves a
# device-only archive of its own.
#   AREA this area   BASE the release area, if any   PRODUCTS what is built   CUDA the toolkit   SRC the sources
ARCH := el9_amd64_gcc12
STATIC := $(AREA)/static/$(ARCH)
LIB := $(AREA)/lib/$(ARCH)
TMP := $(AREA)/tmp/$(ARCH)
NVCC ?= nvcc
-include $(MAKEFILE_CUDA)
RUN = $(SCRAM_PREFIX_COMPILER_COMMAND)

CXXFLAGS := -std=c++17 -O2 -pthread -pipe -Werror=main -Wall -fPIC -DPROJECT=\"CMSSW_14\"
CUDA_LDFLAGS := -L$(CUDA)/lib64/stubs -L$(CUDA)/lib64 -lcudadevrt
CUDA_FLAGS := -std=c++17 -O3 --generate-line-info --source-in-ptx --display-error-number --expt-relaxed-constexpr --extended-lambda \
  -gencode arch=compute_90,code=[sm_90,compute_90] -Wno-deprecated-gpu-targets -diag-suppress=3012 \
  -Xcudafe --diag_suppress=esa_on_defaulted_function_ignored --cudart shared $(EXTRA)
HOST_FLAGS := --compiler-options '-O2 -pthread -pipe -Wall -fPIC -DPROJECT="CMSSW_14" -march=x86-64'
STATIC_DIRS := -L$(STATIC) $(BASE:%=-L%/static/$(ARCH))
LIB_DIRS := -L$(LIB) $(BASE:%=-L%/lib/$(ARCH))

# What each product depends on that has device code.
DEPS_Core :=
DEPS_Local := Core
DEPS_PluginP := Local Core
DEPS_PluginQ := Local Core
HOST_Core := Version

all: $(PRODUCTS:%=$(LIB)/lib%.so) $(filter-out $(STATIC)/libPlugin%,$(PRODUCTS:%=$(STATIC)/lib%_nv.a))

$(TMP)/%.cu.o: $(SRC)/%.cu | dirs
	@echo ">> Compiling cuda $<"
	@$(RUN) $(NVCC) -dc $(CUDA_FLAGS) $(HOST_FLAGS) $< -o $@
$(TMP)/%.cc.o: $(SRC)/%.cc | dirs
	@$(RUN) g++ -c $(CXXFLAGS) $< -o $@
$(STATIC)/lib%_nv.a: $(TMP)/%.cu.o
	@$(RUN) objcopy -j '.nv*' -j '__nv*' $< $(TMP)/$*_nv.o
	@$(RUN) ar crs $@ $(TMP)/$*_nv.o

define product
$(TMP)/$(1)_cudadlink.o: $(TMP)/$(1).cu.o $(filter $(DEPS_$(1):%=$(STATIC)/lib%_nv.a),$(PRODUCTS:%=$(STATIC)/lib%_nv.a))
	@echo ">> Cuda device link $(RUN) $(NVCC) -dlink $$<"
	@$(RUN) $(NVCC) -dlink $(STATIC_DIRS) $(DEPS_$(1):%=-l%_nv) $(CUDA_LDFLAGS) $(CUDA_FLAGS) $(HOST_FLAGS) $(TMP)/$(1).cu.o -o $$@
# A library, unlike a plugin, has the archives on its host link, too.
$(LIB)/lib$(1).so: $(TMP)/$(1).cu.o $(TMP)/$(1)_cudadlink.o $(HOST_$(1):%=$(TMP)/%.cc.o) $(filter $(DEPS_$(1):%=$(LIB)/lib%.so),$(PRODUCTS:%=$(LIB)/lib%.so))
	@g++ -shared -o $$@ $(TMP)/$(1).cu.o $(TMP)/$(1)_cudadlink.o $(HOST_$(1):%=$(TMP)/%.cc.o) $(LIB_DIRS) $(STATIC_DIRS) \
	  $(DEPS_$(1):%=-l%) $(if $(filter Plugin%,$(1)),,$(DEPS_$(1):%=-l%_nv)) -L$(CUDA)/lib64 -lcudart
endef
$(foreach p,$(PRODUCTS),$(eval $(call product,$(p))))

dirs: ; @mkdir -p $(STATIC) $(LIB) $(TMP)
.PHONY: all
.SECONDARY:
