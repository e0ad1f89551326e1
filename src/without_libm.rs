//! Keeps libm from being loaded by every call of nvcc for the sake of the one function that a progress bar's estimate takes from it.

/// C's `pow`, by the `libm` crate; the linker finds it before it looks into libm.
#[unsafe(no_mangle)]
#[allow(unsafe_code)] // The name is unmangled; nothing else is.
extern "C" fn pow(x: f64, y: f64) -> f64 {
    libm::pow(x, y)
}
