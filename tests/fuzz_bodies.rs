//! The fuzz targets' bodies over real files and damaged copies of them; leaves the files in `target/fuzz-seeds/` for `fuzz/`.

mod support;

#[path = "../fuzz/bodies.rs"]
mod bodies;

use std::path::Path;
use std::process::Command;

use dlink_shim::object::{self, Content, fatbin};
use proptest::prelude::*;
use support::{Fixtures, Scratch, must, toolkit};

fn seeds(target: &str, files: &[Vec<u8>]) {
    let directory = toolkit::target().join("fuzz-seeds").join(target);
    std::fs::create_dir_all(&directory).unwrap();
    for (index, file) in files.iter().enumerate() {
        std::fs::write(directory.join(index.to_string()), file).unwrap();
    }
}

/// Runs `body` on each file as it is, and on copies that are cut, joined, or have bytes changed.
fn damaged(files: &[Vec<u8>], body: fn(&[u8])) {
    for file in files {
        body(file);
    }
    let change = (any::<prop::sample::Index>(), prop_oneof![Just(0u8), Just(0xff), Just(1), Just(0x7f), any::<u8>()]);
    let how = (any::<prop::sample::Index>(), prop::collection::vec(change, 0..8), prop::option::of(any::<prop::sample::Index>()));
    proptest!(ProptestConfig::with_cases(500), |((which, changes, cut) in how)| {
        let mut data = which.get(files).clone();
        for (at, byte) in changes {
            let at = at.index(data.len());
            data[at] = byte;
        }
        if let Some(cut) = cut {
            data.truncate(cut.index(data.len()));
        }
        body(&data);
    });
}

/// The containers of an object.
fn containers(path: &Path) -> Vec<u8> {
    let Content::Object(member) = object::inspect(path).unwrap() else { panic!("{} is no object", path.display()) };
    let code = member.device_code;
    std::fs::read(path).unwrap()[code.start as usize..code.end as usize].to_vec()
}

#[test]
fn archives_objects_and_images() {
    let fixtures = fixtures!();
    let Some(nvcc) = toolkit::nvcc("13.0") else { return };
    let scratch = fixtures.scene();
    let archive = fixtures.archive(&scratch, "x.a", &["core.o", "devfn_nv.o"]);
    must(Command::new(&nvcc).args(["-arch=sm_90", "-Xcompiler", "-fPIC", "-dlink", "plug.o", "-o", "stub.o"]).current_dir(scratch.path()));
    must(Command::new("g++").args(["-shared", "-s", "-o", "x.so", "plug.o", "stub.o"]).current_dir(scratch.path()));
    let read = |p: &Path| std::fs::read(p).unwrap();
    let files = [
        read(&archive),
        read(&fixtures.object("plugdev.o")),
        read(&fixtures.object("core_nv.o")),
        read(&scratch.join("stub.o")),
        read(&scratch.join("x.so")),
    ];
    seeds("host_file", &files);
    damaged(&files, bodies::host_file);
}

type Files = Vec<Vec<u8>>;

/// Fatbins of every compression, and what is in them.
fn device_files() -> Option<(Files, Files)> {
    let fixtures = Fixtures::get()?;
    let nvcc = toolkit::nvcc("13.5")?;
    let scratch = Scratch::new();
    std::fs::copy(fixtures.object("plugdev.cu"), scratch.join("k.cu")).unwrap();
    let mut fatbins = vec![containers(&fixtures.object("devfn.o"))];
    let both = "-gencode=arch=compute_80,code=[sm_80,compute_80]";
    for mode in
        [vec!["-no-compress"], vec!["--compress-mode", "speed"], vec!["-lineinfo"], vec!["-gencode=arch=compute_90,code=sm_90", "-concat"]]
    {
        must(Command::new(&nvcc).args([both, "-dc", "k.cu", "-o", "k.o"]).args(mode).current_dir(scratch.path()));
        fatbins.push(containers(&scratch.join("k.o")));
    }
    let mut code = Vec::new();
    for section in &fatbins {
        fatbin::images(section, &mut |image| code.extend(image.bytes.map(<[u8]>::to_vec)));
    }
    assert!(code.len() >= 8, "{} images", code.len());
    Some((fatbins, code))
}

#[test]
fn containers_of_images() {
    let Some((fatbins, _)) = device_files() else { return };
    seeds("fatbin", &fatbins);
    damaged(&fatbins, bodies::fatbin);
}

#[test]
fn cubins_and_ptx() {
    let Some((_, code)) = device_files() else { return };
    seeds("device_code", &code);
    damaged(&code, bodies::device_code);
}

#[test]
fn words_of_nvcc() {
    let files: Vec<Vec<u8>> = [
        "-dlink plug.o -L. -lcore_nv,other -o o",
        "-arch=sm_90 --library=core_nv --library-path L,M --device-link \"plug o.o\" --output-file=o -Xnvlink=-LL,-lcore_nv",
        "--options-file a.rsp -optf b.rsp,c.rsp -Xcompiler -fPIC,-dlink -gencode arch=compute_90,code=[sm_90,compute_90] x.o",
        "-shared -rdc=true a.o b.o -o x.so\r\n\t-l:libz.a \\\\ \\\" -v",
    ]
    .map(|t| t.as_bytes().to_vec())
    .to_vec();
    seeds("options", &files);
    damaged(&files, bodies::options);
}
