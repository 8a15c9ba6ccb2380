//! Experiments that are part of the program.

/// An experiment that is part of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Builtin {
    /// Identity, for example `000-A`.
    pub id: &'static str,
    /// Text of its file.
    pub text: &'static str,
}

macro_rules! builtin {
    ($($id:literal $file:literal)*) => {
        &[$(Builtin { id: $id, text: include_str!(concat!("../../experiments/", $file)) }),*]
    };
}

const BUILTIN: &[Builtin] = builtin! {
    "000-A" "000-a.toml"
    "000-A-RECOVERY" "000-a-recovery.toml"
    "000-B" "000-b.toml"
    "000-C" "000-c.toml"
    "000-D" "000-d.toml"
    "000-E" "000-e.toml"
    "000-F" "000-f.toml"
    "000-G" "000-g.toml"
    "000-H" "000-h.toml"
    "000-I" "000-i.toml"
    "000-J" "000-j.toml"
    "001-A" "001-a.toml"
    "001-B" "001-b.toml"
    "001-B-ACKS" "001-b-acks.toml"
    "001-C" "001-c.toml"
    "001-D" "001-d.toml"
    "001-E" "001-e.toml"
    "001-F" "001-f.toml"
    "001-G" "001-g.toml"
    "002-A" "002-a.toml"
    "002-B" "002-b.toml"
    "002-C" "002-c.toml"
    "002-D" "002-d.toml"
    "002-E" "002-e.toml"
    "002-E-CLASSIC" "002-e-classic.toml"
    "003-A" "003-a.toml"
    "003-B" "003-b.toml"
    "003-B-STATIONS" "003-b-stations.toml"
    "003-C" "003-c.toml"
    "003-D" "003-d.toml"
    "003-E" "003-e.toml"
    "003-E-FRAGMENTS" "003-e-fragments.toml"
    "003-E-NESTED" "003-e-nested.toml"
    "004-A" "004-a.toml"
    "004-B" "004-b.toml"
    "004-C" "004-c.toml"
    "004-D" "004-d.toml"
    "004-E" "004-e.toml"
    "004-F" "004-f.toml"
    "004-G" "004-g.toml"
    "004-H" "004-h.toml"
    "004-I" "004-i.toml"
    "CIPHER" "cipher.toml"
    "HOME-UPLINKS" "home-uplinks.toml"
};

/// Returns all experiments that are part of the program, by their identities.
pub const fn builtin() -> &'static [Builtin] {
    BUILTIN
}

/// Returns the experiment with this identity, in capital or small letters.
pub fn find_builtin(id: &str) -> Option<Builtin> {
    BUILTIN.iter().copied().find(|builtin| builtin.id.eq_ignore_ascii_case(id))
}
