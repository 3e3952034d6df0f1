// SPDX-License-Identifier: GPL-2.0

//! Tests of `rust/mlx5_ulp_api`, run while the module loads: it stays loaded if all have passed, and else refuses to
//! load; the log says why.

use kernel::prelude::*;

mod calls;
mod cm;
#[path = "../../rust/mlx5_ulp/errno.rs"]
mod errno;
mod exclusive;
mod find;
mod handler;
mod keys;
mod local;
mod pair;
mod regions;
mod removal;
mod room;
#[path = "../../rust/mlx5_ulp_api/mod.rs"]
mod ulp;
mod ulp_bindings;
#[path = "../../rust/mlx5_ulp_api/cm/mod.rs"]
mod ulp_cm;
#[path = "../../rust/mlx5_ulp_api/cm/handler.rs"]
mod ulp_cm_handler;

module! {
    type: Test,
    name: "mlx5_ulp_test_rust",
    authors: ["The mlx5_ulp authors"],
    description: "Tests of the Rust interface of mlx5_ulp",
    license: "GPL",
}

/// Fails with a line in the log.
macro_rules! check {
    ($what:expr) => {
        if !$what {
            pr_err!(
                "line {} of {}: not so: {}\n",
                line!(),
                file!(),
                stringify!($what)
            );
            return Err(kernel::error::code::EINVAL);
        }
    };
}
use check;

/// A test and its name.
type Named = (&'static CStr, fn() -> Result);

const TESTS: [Named; 22] = [
    (c"memory", regions::memory),
    (c"outside", regions::outside),
    (c"ended", regions::ended),
    (c"dropped", regions::dropped),
    (c"list", keys::list),
    (c"registration", keys::registration),
    (c"global", keys::global),
    (c"space", room::space),
    (c"reservation", room::reservation),
    (c"forgotten", room::forgotten),
    (c"ranges", local::ranges),
    (c"inlined", local::inlined),
    (c"exclusive", exclusive::exclusive),
    (c"exclusive reservation", exclusive::reservation),
    (c"exclusive space", exclusive::space),
    (c"found", find::found),
    (c"connected", find::connected),
    (c"disconnect", calls::disconnect),
    (c"connection", cm::connection),
    (c"one poster", cm::one_poster),
    (c"refusal", cm::refusal),
    (c"handler", handler::handler),
];

/// The loaded module.
struct Test {
    _leaver: removal::Leaver,
}

impl kernel::Module for Test {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        for (name, test) in TESTS {
            test().inspect_err(|e| pr_err!("{name}: {e:?}\n"))?;
            pr_info!("{name}: ok\n");
        }
        Ok(Self {
            _leaver: removal::Leaver::new()?,
        })
    }
}
