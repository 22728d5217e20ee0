//! Tells the code which Python it is built for: `Py_GIL_DISABLED` is free threading.

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
}
