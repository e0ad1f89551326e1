//! The guard: a header, force-included into the compilation of the stub, that makes the stub's count complete.
//!
//! NVIDIA's `crt/link.stub` stays as it is. For each guarded unit the header renames, by macro, the two names that the
//! stub pastes together, and defines the real entry point itself. What the entry point does was measured with nvcc
//! 11.8 to 13.5 through a registration probe and on a GPU; the comments in the header say why each part is there.
//!
//! The text depends on the ids alone, and names no file, so that equal inputs give equal objects.

use std::fmt::Write;

use crate::plan::Guarded;

const COMMON: &str = r#"#line 1 "dlink-shim-guard.h"
#pragma GCC system_header
#include <stddef.h>
#include <fatbinary_section.h>
typedef void (*dlink_shim_callback)(void **);
/* Weak: a program that does not link libdl may not have it. */
extern "C" void *dlink_shim_dlsym(void *, const char *) __asm__("dlsym") __attribute__((weak));
/* An empty container, for a unit whose own is in no loaded image. */
static const struct { unsigned int magic; unsigned short version, header; unsigned long long size; }
  dlink_shim_empty = {0xba55ed50u, 1, 16, 0};
static const __fatBinC_Wrapper_t dlink_shim_no_code = {0x466243b1, 1, (const unsigned long long *)&dlink_shim_empty, 0};
struct dlink_shim_unit {
  void (*inner)(dlink_shim_callback, void *, void *, void (*)(void *));
  const __fatBinC_Wrapper_t **record;
  const char *wrapper, *entry;
  int here, looked, counted, borrowed;
  dlink_shim_callback late;
};
/* The stub's handle, once its count is complete. */
static void **dlink_shim_handle;
/* The linker's own names for the ends of this image's id section: each host object in the image has its unit's id there,
   and this object its `def <id>`s, so the section is never missing. (A weak hidden reference to the unit's wrapper would
   say the same, but gold and mold refuse it when a shared library on the line defines the wrapper.) */
extern "C" const char dlink_shim_ids[] __asm__("__start___nv_module_id") __attribute__((visibility("hidden")));
extern "C" const char dlink_shim_ids_end[] __asm__("__stop___nv_module_id") __attribute__((visibility("hidden")));
__asm__(".hidden __start___nv_module_id\n.hidden __stop___nv_module_id");
static int dlink_shim_equal(const char *a, const char *b) {
  while (*a && *a == *b) ++a, ++b;
  return *a == *b;
}
static int dlink_shim_here(dlink_shim_unit &u) {
  if (!u.looked) {
    u.looked = 1;
    for (const char *p = dlink_shim_ids, *end = dlink_shim_ids_end; p < end && !u.here;) {
      if (*p) u.here = dlink_shim_equal(p, u.wrapper + sizeof "__fatbinwrap" - 1);
      while (p < end && *p) ++p;
      while (p < end && !*p) ++p;
    }
  }
  return u.here;
}
static void dlink_shim_ref(void *) {}
static void dlink_shim_fill(dlink_shim_unit &u, const __fatBinC_Wrapper_t *from) {
  if (!from && dlink_shim_dlsym) from = (const __fatBinC_Wrapper_t *)dlink_shim_dlsym(NULL, u.wrapper);
  if (from && from->data) *u.record = from;
}
/* The callback of borrowed units, which have nothing to register here, but for registrars that came meanwhile. */
static void dlink_shim_done(void **handle);
/* No host object of the unit is in this image: its kernels belong to another one, and nobody here will call. */
static void dlink_shim_count(dlink_shim_unit &u) {
  if (dlink_shim_here(u) || u.counted) return;
  u.counted = u.borrowed = 1;
  dlink_shim_fill(u, NULL);
  u.inner(dlink_shim_done, NULL, NULL, dlink_shim_ref);
}
/* A registrar of the unit calls. The stub counts each unit once, whoever calls how often. */
static void dlink_shim_call(dlink_shim_unit &u, dlink_shim_callback callback, void *wrapper, void *id, void (*ref)(void *)) {
  if (!dlink_shim_here(u) && dlink_shim_dlsym) {
    /* It is in another image, and came here because this one was loaded earlier (RTLD_NEXT is -1). That image's own stub,
       if it has one, waits for it: one that is not guarded would starve. */
    typedef void (*entry)(dlink_shim_callback, void *, void *, void (*)(void *));
    entry next = (entry)dlink_shim_dlsym((void *)-1L, u.entry);
    if (next) {
      dlink_shim_count(u);
      next(callback, wrapper, id, ref);
      return;
    }
  }
  if (!u.counted) {
    u.counted = 1;
    dlink_shim_fill(u, (const __fatBinC_Wrapper_t *)wrapper);
    u.inner(callback, wrapper, id, ref);
  } else if (u.borrowed) {
    /* It comes after the unit was counted in its stead. */
    u.borrowed = 0;
    if (dlink_shim_handle) callback(dlink_shim_handle);
    else u.late = callback;
  }
}
#define DLINK_SHIM_UNIT(ID) \
  extern "C" { \
  extern const __fatBinC_Wrapper_t *dlink_shim_record##ID __attribute__((visibility("hidden"))); \
  void dlink_shim_inner##ID(dlink_shim_callback, void *, void *, void (*)(void *)) __attribute__((visibility("hidden"))); \
  void dlink_shim_entry##ID(dlink_shim_callback, void *, void *, void (*)(void *)) \
    __asm__("__cudaRegisterLinkedBinary" #ID) __attribute__((visibility("protected"))); \
  } \
  const __fatBinC_Wrapper_t *dlink_shim_record##ID = &dlink_shim_no_code; \
  static dlink_shim_unit dlink_shim_unit##ID = {dlink_shim_inner##ID, &dlink_shim_record##ID, \
    "__fatbinwrap" #ID, "__cudaRegisterLinkedBinary" #ID, 0, 0, 0, 0, 0}; \
  void dlink_shim_entry##ID(dlink_shim_callback callback, void *wrapper, void *id, void (*ref)(void *)) { \
    dlink_shim_call(dlink_shim_unit##ID, callback, wrapper, id, ref); \
  }
/* The stock stub's reference to the wrapper pulls a member out of its archive; this one pulls it by another symbol. */
#define DLINK_SHIM_PULL(ID, SYMBOL) \
  extern "C" char dlink_shim_pulled##ID __asm__(SYMBOL); \
  __attribute__((used)) static void *const dlink_shim_pull##ID = (void *)&dlink_shim_pulled##ID;
"#;

/// The header's text for these units.
pub fn header(units: &[Guarded]) -> Vec<u8> {
    let mut out = String::from(COMMON);
    for unit in units {
        let id = String::from_utf8_lossy(&unit.id);
        let _ = writeln!(out, "#define __cudaRegisterLinkedBinary{id} dlink_shim_inner{id}");
        // The stub's `extern const T NAME` then declares a pointer, and its `&NAME` is the pointer's value.
        let _ = writeln!(out, "#define __fatbinwrap{id} (*dlink_shim_record{id})");
        let _ = writeln!(out, "DLINK_SHIM_UNIT({id})");
        if let Some(symbol) = &unit.pull {
            let _ = writeln!(out, "DLINK_SHIM_PULL({id}, \"{}\")", String::from_utf8_lossy(symbol));
        }
    }
    // One constructor for all: a function for each would double what the header costs the compiler.
    out.push_str("static dlink_shim_unit *const dlink_shim_units[] = {\n");
    for unit in units {
        let _ = writeln!(out, "&dlink_shim_unit{},", String::from_utf8_lossy(&unit.id));
    }
    out.push_str(concat!(
        "};\n",
        "static const size_t dlink_shim_count_of = sizeof dlink_shim_units / sizeof *dlink_shim_units;\n",
        "static void dlink_shim_done(void **handle) {\n",
        "  dlink_shim_handle = handle;\n",
        "  for (size_t i = 0; i < dlink_shim_count_of; ++i) {\n",
        "    dlink_shim_callback late = dlink_shim_units[i]->late;\n",
        "    dlink_shim_units[i]->late = NULL;\n",
        "    if (late) late(handle);\n",
        "  }\n",
        "}\n",
        "__attribute__((constructor)) static void dlink_shim_count_all(void) {\n",
        "  for (size_t i = 0; i < dlink_shim_count_of; ++i) dlink_shim_count(*dlink_shim_units[i]);\n",
        "}\n",
    ));
    out.into_bytes()
}

/// Whether an id can stand in C source; every id that nvcc or clang writes can.
pub fn can_be_named(id: &[u8]) -> bool {
    !id.is_empty() && id.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_')
}
