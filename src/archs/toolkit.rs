//! What a toolkit says of itself.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::gpu::Gpu;

/// `CUDA_VERSION` stands in the first 20 kB of cuda.h in every toolkit looked at (11.8 to 13.5).
const MAX_BYTES: u64 = 256 << 10;

/// The version of nvcc's toolkit, from its files: running nvcc would cost each compilation some milliseconds.
pub fn version(nvcc: &Path) -> Option<(u32, u32)> {
    let top = nvcc.parent()?.parent()?;
    let json = read(&top.join("version.json")).and_then(|text| from_json(&text));
    let headers = ["include", "targets/x86_64-linux/include", "targets/sbsa-linux/include", "targets/aarch64-linux/include"];
    let header = |directory: &str| from_header(&read(&top.join(directory).join("cuda.h"))?);
    json.or_else(|| headers.into_iter().find_map(header))
}

/// `{"cuda": {"version": "12.4.1"}, …}`.
fn from_json(text: &[u8]) -> Option<(u32, u32)> {
    let value: serde_json::Value = serde_json::from_slice(text).ok()?;
    let mut parts = value.get("cuda")?.get("version")?.as_str()?.split('.').map(|p| p.parse().ok());
    Some((parts.next()??, parts.next()??))
}

/// `#define CUDA_VERSION 12040`.
fn from_header(text: &[u8]) -> Option<(u32, u32)> {
    let line = text.split(|&b| b == b'\n').find_map(|line| line.strip_prefix(b"#define CUDA_VERSION "))?;
    let number: u32 = std::str::from_utf8(line.trim_ascii()).ok()?.parse().ok()?;
    Some((number / 1000, number % 1000 / 10))
}

fn read(path: &PathBuf) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    std::fs::File::open(path).ok()?.take(MAX_BYTES).read_to_end(&mut text).ok()?;
    Some(text)
}

/// What nvcc can generate machine code for, as it says itself. Only asked for `-arch=all`, which stands for these.
pub fn architectures(nvcc: &Path) -> Option<Vec<Gpu>> {
    let mut command = Command::new(nvcc);
    // These may hold options that make it a compilation.
    command.env_remove("NVCC_PREPEND_FLAGS").env_remove("NVCC_APPEND_FLAGS");
    let output = command.arg("--list-gpu-code").stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    let gpus = text.split_whitespace().map(|word| Gpu::from_text(word.strip_prefix("sm_")?)).collect::<Option<Vec<_>>>()?;
    (!gpus.is_empty()).then_some(gpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_either_file() {
        assert_eq!(from_json(br#"{"cuda": {"name": "CUDA SDK", "version": "12.4.1"}}"#), Some((12, 4)));
        assert_eq!(from_json(br#"{"cuda": {"version": "12"}}"#), None);
        assert_eq!(from_header(b"/* x */\n#define CUDA_VERSION 11080\n"), Some((11, 8)));
        assert_eq!(from_header(b"#define CUDA_VERSION x\n"), None);
    }
}
