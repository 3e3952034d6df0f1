// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What tracepoints print for numbers (`include/trace/events/mlx5_ulp.h`) is what the module means by them.

use mlx5_ulp_host_tests::cq::moderation;
use mlx5_ulp_host_tests::doorbell::policy;
use mlx5_ulp_host_tests::observe::opcodes::OPCODES;

const HEADER: &str = include_str!("../../../include/trace/events/mlx5_ulp.h");

/// The pairs of number and name in the macro with this name.
fn symbols(name: &str) -> Vec<(u32, String)> {
    let start = format!("#define {name}(");
    let at = HEADER.find(&start).expect(name);
    let mut pairs = Vec::new();
    for line in HEADER[at..].lines() {
        if let Some((_, pair)) = line.split_once("{ ") {
            let (number, rest) = pair.split_once(", \"").expect(line);
            let (text, _) = rest.split_once('"').expect(line);
            let number = match number.strip_prefix("0x") {
                Some(hex) => u32::from_str_radix(hex, 16),
                None => number.parse(),
            };
            pairs.push((number.expect(line), text.to_string()));
        }
        if !line.ends_with('\\') {
            break;
        }
    }
    pairs
}

#[test]
fn modes_have_the_names_of_their_parameters() {
    use moderation::Mode;
    let doorbell = policy::Mode::WORDS.iter().zip(0..);
    let doorbell = doorbell.map(|(name, number)| (number, name.to_string()));
    let completion = [Mode::Polling, Mode::Hybrid, Mode::Interrupt];
    let completion = completion.map(|mode| (mode.traced().into(), mode.name().to_string()));
    let want: Vec<_> = doorbell.chain(completion).collect();
    assert_eq!(symbols("mlx5_ulp_show_mode"), want);
}

#[test]
fn all_opcodes_have_names() {
    let mut have: Vec<_> = symbols("mlx5_ulp_show_opcode")
        .into_iter()
        .map(|(number, _)| number)
        .collect();
    let mut want: Vec<_> = OPCODES.map(|opcode| u32::from(opcode.0)).to_vec();
    have.sort_unstable();
    want.sort_unstable();
    assert_eq!(have, want);
}
