// SPDX-License-Identifier: GPL-2.0 OR MIT

use super::*;

fn headers(dmac: [u8; 6]) -> Headers {
    let mut frame = [dmac, [2, 0, 0, 0, 0, 9]].concat();
    frame.extend([8, 6]);
    Headers::parse(&frame).unwrap()
}

fn table(steering: &mut Steering, miss: Option<u32>) -> u32 {
    let table = FlowTable {
        log_size: 4,
        level: 0,
        miss,
        entries: BTreeMap::new(),
    };
    steering.tables.insert(table).unwrap()
}

fn group(steering: &mut Steering, table: u32, dmac: bool) -> u32 {
    let mut mask = Box::new([0; MATCH_LEN]);
    if dmac {
        let field = field!(mlx5_ifc_fte_match_set_lyr_2_4_bits, dmac_47_16);
        ifc::set(&mut mask[..], field, u32::MAX);
    }
    let group = Group {
        table,
        range: (0, 15),
        mask,
    };
    steering.groups.insert(group).unwrap()
}

fn entry(group: u32, dmac: [u8; 6], action: u32, to: Destination) -> Entry {
    Entry {
        group,
        action,
        value: Box::new(match_param(&headers(dmac))),
        destinations: vec![to],
    }
}

#[test]
fn the_first_match_decides_and_a_miss_goes_on() {
    let mut s = Steering::default();
    let last = table(&mut s, None);
    let first = table(&mut s, Some(last));
    let by_mac = group(&mut s, first, true);
    let any = group(&mut s, last, false);
    let a = [2, 0, 0, 0, 0, 1];
    let b = [6, 0, 0, 0, 0, 1];
    let c = [10, 0, 0, 0, 0, 1];
    s.set_entry(first, 0, entry(by_mac, a, 4, Destination::Tir(7)))
        .unwrap();
    s.set_entry(first, 1, entry(by_mac, b, 2, Destination::Tir(7)))
        .unwrap();
    s.set_entry(last, 0, entry(any, a, 4, Destination::Tir(8)))
        .unwrap();
    assert!(s.steer(&headers(a)).is_empty());
    s.root = Some(first);
    assert_eq!(s.steer(&headers(a)), [7]);
    assert!(s.steer(&headers(b)).is_empty());
    assert_eq!(s.steer(&headers(c)), [8]);
}

#[test]
fn what_a_frame_is_matched_by_is_known_and_nothing_else() {
    let mut frame = [[2; 6], [4; 6]].concat();
    frame.extend([0x81, 0, 0, 5, 8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 9, UDP]);
    frame.extend([0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 1, 2, 3, 4, 0, 8, 0, 0]);
    let param = match_param(&Headers::parse(&frame).unwrap());
    assert!(is_known(&param) && is_known(&[0; MATCH_LEN]));
    let unknown = (0..MATCH_LEN * 8).filter(|bit| {
        let mut mask = [0; MATCH_LEN];
        mask[bit / 8] = 0x80 >> (bit % 8);
        !is_known(&mask)
    });
    // Sizes in bits: MACs, types, tags and VLAN id, protocol, version, fragment, ports; addresses.
    let known = 2 * 48 + 16 + 1 + 1 + 12 + 8 + 4 + 1 + 2 + 4 * 16 + 2 * 128;
    assert_eq!(unknown.count(), MATCH_LEN * 8 - known);
}

#[test]
fn a_loop_ends() {
    let mut s = Steering::default();
    let t = table(&mut s, None);
    let any = group(&mut s, t, false);
    s.set_entry(t, 0, entry(any, [2; 6], 4, Destination::Table(t)))
        .unwrap();
    s.root = Some(t);
    assert!(s.steer(&headers([2; 6])).is_empty());
}

#[test]
fn entries_belong_to_their_group() {
    let mut s = Steering::default();
    let (t, u) = (table(&mut s, None), table(&mut s, None));
    let g = group(&mut s, t, false);
    let e = entry(g, [2; 6], 4, Destination::Tir(1));
    assert!(s.set_entry(u, 0, e.clone()).is_err());
    assert!(s.set_entry(t, 16, e.clone()).is_err());
    assert!(s.set_entry(t, 15, e).unwrap().is_none());
}

#[test]
fn all_tables_share_one_number_of_entries() {
    let mut s = Steering::default();
    let mut groups = Vec::new();
    for _ in 0..2 {
        let id = table(&mut s, None);
        let group = Group {
            table: id,
            range: (0, u32::MAX),
            mask: Box::new([0; MATCH_LEN]),
        };
        groups.push((id, s.groups.insert(group).unwrap()));
    }
    let entry = |group| entry(group, [2; 6], 4, Destination::Tir(1));
    for i in 0..1u32 << LOG_MAX_FLOW {
        let (table, group) = groups[i as usize % 2];
        s.set_entry(table, i, entry(group)).unwrap();
    }
    let (table, group) = groups[0];
    let full = s.set_entry(table, u32::MAX, entry(group)).unwrap_err();
    assert_eq!(full.status, Status::ExceedLim);
    // One that is there can be changed, and one that goes makes room for another.
    assert!(s.set_entry(table, 0, entry(group)).unwrap().is_some());
    s.remove_entry(groups[1].0, 1).unwrap();
    s.set_entry(table, u32::MAX, entry(group)).unwrap();
    assert_eq!(s.objects()[2], ("flow_table_entry", 1 << LOG_MAX_FLOW));
    assert!(s.remove_entry(groups[1].0, 1).is_err());
}
