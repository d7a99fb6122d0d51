//! The words of a phrase: 256, so that each stands for eight bits.
//!
//! *The idea.* English words of four to eight letters that most people can spell when they hear
//! them. Any two differ by at least two inserted, deleted or replaced letters, so a single typing
//! error never yields another word and is detected at once.
//!
//! *What it does not do.* It is not a standard's list: PGP's has words that are hard to spell, BIP
//! 39's some that sound alike.

/// The words, in order.
pub(super) const WORDS: [&str; 256] = [
    "acorn", "album", "alpine", "amber", "anchor", "antler", "apple", "apron", "arctic", "arrow",
    "aspen", "atlas", "autumn", "badger", "bakery", "balloon", "bamboo", "banjo", "barley",
    "barrel", "basalt", "basket", "beacon", "beaver", "beetle", "bison", "blanket", "blossom",
    "bobcat", "bonfire", "border", "bottle", "breeze", "brick", "bronze", "buffalo", "butter",
    "cabin", "cactus", "camel", "candle", "canoe", "canyon", "captain", "caramel", "carbon",
    "cargo", "carpet", "carrot", "castle", "cavern", "cedar", "cello", "chalk", "cherry",
    "chimney", "cinder", "circus", "citron", "clover", "coffee", "comet", "compass", "copper",
    "coral", "cotton", "cradle", "cricket", "crystal", "cuckoo", "cupboard", "curtain", "cypress",
    "daisy", "dancer", "delta", "denim", "desert", "diamond", "dolphin", "domino", "donkey",
    "dragon", "drummer", "eagle", "echo", "elbow", "elephant", "emerald", "engine", "falcon",
    "farmer", "feather", "fennel", "ferry", "fiddle", "flannel", "flute", "forest", "fossil",
    "fountain", "galaxy", "garden", "garlic", "gazelle", "geyser", "ginger", "giraffe", "glacier",
    "goblet", "gondola", "gopher", "granite", "grape", "gravel", "guitar", "hammer", "hamster",
    "harvest", "hazel", "hedge", "helmet", "heron", "hickory", "honey", "hornet", "iceberg",
    "igloo", "indigo", "ivory", "jacket", "jaguar", "jasmine", "jelly", "jigsaw", "jungle",
    "juniper", "kayak", "kernel", "kettle", "kitten", "koala", "ladder", "lagoon", "lantern",
    "laurel", "lemon", "leopard", "lilac", "lizard", "llama", "lobster", "lotus", "magnet",
    "mango", "maple", "marble", "meadow", "melon", "mirror", "mosaic", "muffin", "mustard",
    "napkin", "nectar", "needle", "nickel", "noodle", "nutmeg", "oasis", "ocean", "octopus",
    "olive", "onion", "opal", "orbit", "orchid", "osprey", "otter", "oyster", "paddle", "panther",
    "papaya", "pebble", "pelican", "pencil", "pepper", "piano", "pigeon", "pilot", "planet",
    "plaza", "pocket", "pollen", "pony", "prairie", "pretzel", "pumpkin", "puzzle", "quail",
    "quarry", "rabbit", "raccoon", "radish", "rainbow", "raven", "ribbon", "river", "robin",
    "rosemary", "saffron", "salmon", "sandal", "satchel", "scarlet", "shadow", "shovel", "silver",
    "skillet", "sparrow", "spinach", "spruce", "squirrel", "stable", "sugar", "summit", "sunset",
    "swallow", "teapot", "temple", "thistle", "thunder", "tiger", "timber", "tomato", "tortoise",
    "tractor", "trumpet", "tulip", "tundra", "turnip", "umbrella", "vanilla", "velvet", "violin",
    "volcano", "waffle", "walnut", "willow", "window", "winter", "yellow", "yogurt", "zebra",
    "zephyr", "zigzag",
];
