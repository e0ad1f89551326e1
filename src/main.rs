//! The program; everything is in the library.

fn main() -> std::process::ExitCode {
    dlink_shim::run(std::env::args_os().collect(), dlink_shim::Env::from_process())
}
