// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Completion modes: any traffic, any text.

use mlx5_ulp_host_tests::cq::moderation::rate::LOG_WINDOW_NS;
use mlx5_ulp_host_tests::cq::moderation::settings::{Choice, Settings, THRESHOLDS};
use mlx5_ulp_host_tests::cq::moderation::{Governor, Mode};
use proptest::collection::vec;
use proptest::prelude::*;

/// Words that mean something, and some that do not.
fn text() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("auto".to_string()),
        Just("polling".to_string()),
        Just("hybrid".to_string()),
        Just("interrupt".to_string()),
        (0u64..300_000_000).prop_map(|n| format!("hybrid_thresh={n}")),
        (0u64..300_000_000).prop_map(|n| format!("interrupt_thresh={n}")),
        (100u64..1000).prop_map(|n| format!("hybrid_thresh={n}")),
        "[a-z_=0-9]{0,20}",
    ];
    (
        vec(word, 0..4),
        prop_oneof![Just(" "), Just(","), Just("\n"), Just(" , ")],
    )
        .prop_map(|(words, between)| words.join(between))
}

fn valid(s: &Settings) -> bool {
    THRESHOLDS.contains(&s.hybrid_thresh())
        && THRESHOLDS.contains(&s.interrupt_thresh())
        && s.hybrid_thresh() < s.interrupt_thresh()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_text_gives_valid_settings_or_none(texts in vec(text(), 1..6), bytes in any::<Vec<u8>>()) {
        let mut settings = Settings::DEFAULT;
        for text in &texts {
            if let Ok(changed) = settings.changed_by(text.as_bytes()) {
                prop_assert!(valid(&changed));
                let again = Settings::DEFAULT.changed_by(changed.to_string().as_bytes());
                prop_assert_eq!(again, Ok(changed));
                settings = changed;
            }
        }
        if let Ok(changed) = settings.changed_by(&bytes) {
            prop_assert!(valid(&changed));
        }
    }

    /// Whatever the traffic: modes change no more often than every eighth window, one step at a time,
    /// and only when the average is on the right side of the threshold. (Looks are at most a window
    /// apart here: so what is seen is what each window decided.)
    #[test]
    fn damped_whatever_the_traffic(
        looks in vec((0u32..200_000, 0u64..=1 << LOG_WINDOW_NS), 1..600),
        text in text(),
    ) {
        let settings = Settings::DEFAULT.changed_by(text.as_bytes()).unwrap_or(Settings::DEFAULT);
        let mut governor = Governor::new(settings, 0);
        let mut mode = governor.mode();
        let mut now = 0u64;
        let mut last_change = None;
        for (completions, later) in looks {
            now += later;
            let Some(new) = governor.record(completions, now) else {
                prop_assert_eq!(governor.mode(), mode);
                continue;
            };
            let window = now >> LOG_WINDOW_NS;
            prop_assert_eq!(settings.choice(), Choice::Auto);
            prop_assert_eq!((new as i32 - mode as i32).abs(), 1, "one step");
            if let Some(last) = last_change {
                prop_assert!(window - last >= 8, "{} windows", window - last);
            }
            let rate = governor.per_second();
            let (hybrid, interrupt) = (settings.hybrid_thresh(), settings.interrupt_thresh());
            let right = match (mode, new) {
                (Mode::Polling, _) => rate + 1 >= hybrid.into(),
                (_, Mode::Interrupt) => rate + 1 >= interrupt.into(),
                (_, Mode::Polling) => rate < hybrid.into(),
                _ => rate < interrupt.into(),
            };
            prop_assert!(right, "{:?} to {:?} at {}", mode, new, rate);
            last_change = Some(window);
            mode = new;
        }
    }

    #[test]
    fn any_numbers(looks in vec(any::<(u32, u64)>(), 1..100)) {
        let mut governor = Governor::new(Settings::DEFAULT, looks[0].1);
        for (completions, now) in looks {
            governor.record(completions, now);
            governor.per_second();
        }
    }
}
