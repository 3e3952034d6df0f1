// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The PCI Express audit of any registers: always the same lines, each of them one line.

use mlx5_ulp_host_tests::pcie::audit::{audit, Facts, Role, Verdict};
use mlx5_ulp_host_tests::pcie::registers::{Express, Msix};
use proptest::option;
use proptest::prelude::*;

fn express() -> impl Strategy<Value = Option<Express>> {
    option::of(any::<(u32, u16, u32, u16, u16)>().prop_map(
        |(dev_cap, dev_ctl, link_cap, link_ctl, link_sta)| Express {
            dev_cap,
            dev_ctl,
            link_cap,
            link_ctl,
            link_sta,
        },
    ))
}

fn facts() -> impl Strategy<Value = Facts> {
    let msix = option::of(any::<(u16, u32)>().prop_map(|(control, table)| Msix { control, table }));
    let role = prop_oneof![
        any::<u16>().prop_map(Role::Physical),
        Just(Role::Virtual),
        Just(Role::PassedThrough),
    ];
    (express(), express(), msix, role, any::<[u32; 3]>()).prop_map(
        |(function, port, msix, role, [vectors_used, cpus, queues])| Facts {
            function,
            port,
            msix,
            role,
            vectors_used,
            cpus,
            queues,
        },
    )
}

proptest! {
    #[test]
    fn any_registers(facts in facts()) {
        let findings = audit(&facts);
        let names: Vec<_> = findings.iter().map(|f| f.name).collect();
        let unique: std::collections::BTreeSet<_> = names.iter().collect();
        prop_assert_eq!(unique.len(), names.len());
        for finding in &findings {
            let line = finding.to_string();
            prop_assert!(!line.contains('\n'), "{}", line);
            let verdict = match finding.verdict {
                Verdict::Ok => "ok",
                Verdict::Warn => "warn",
                Verdict::Unknown => "unknown",
            };
            let start = format!("{} {verdict} ", finding.name);
            prop_assert!(line.starts_with(&start), "{}", line);
            // A warning says what to do.
            let advised = line.split_once(": ").is_some_and(|(_, advice)| advice.len() > 20);
            prop_assert_eq!(advised, finding.verdict == Verdict::Warn, "{}", line);
        }
        // What cannot be read is never a warning.
        if facts.function.is_none() {
            let link = ["link_speed", "link_width", "aspm", "rcb", "mrrs", "mps"];
            for finding in findings.iter().filter(|f| link.contains(&f.name)) {
                prop_assert_eq!(finding.verdict, Verdict::Unknown);
            }
        }
    }
}
