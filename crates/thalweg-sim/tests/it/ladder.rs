//! Proves that the ladder's worlds, from an office network to a radio link, have no violations. Their
//! loss bursts delay reports for longer than those of generated worlds, and a line that has become
//! quiet stays in its burst.

use thalweg_world::Format;

use super::worlds::run;

macro_rules! rungs {
    ($($test:ident: $file:literal,)*) => {$(
        #[test]
        fn $test() {
            let text = include_str!(concat!("../../../../worlds/ladder/", $file));
            let world = thalweg_world::load_str(text, Format::Toml, $file).expect("a world of the repository");
            for seed in 1..=2 {
                let report = run(&world, seed).report;
                assert_eq!(report.violations, [] as [&str; 0], "seed {seed}");
            }
        }
    )*};
}

rungs! {
    office_lan: "office-lan.toml",
    good_wifi: "good-wifi.toml",
    congested_wifi: "congested-wifi.toml",
    fourth_generation: "4g.toml",
    weak_fourth_generation: "weak-4g.toml",
    low_orbit: "leo.toml",
    high_orbit: "geo.toml",
    radio: "radio-150.toml",
}
