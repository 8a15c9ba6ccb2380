//! Sets `linux_api`, the condition of all code that calls Linux directly. The feature `portable`
//! unsets it.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(linux_api)");
    let linux = std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux");
    if linux && std::env::var_os("CARGO_FEATURE_PORTABLE").is_none() {
        println!("cargo::rustc-cfg=linux_api");
    }
}
