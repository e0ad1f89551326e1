//! Device symbols as a scene keeps them: packed, since a link can have millions.

use crate::object::DeviceSymbols;

/// What a member's units need and give; [`DeviceSymbols`] in a single piece of memory.
#[derive(Clone, Debug)]
pub struct Names {
    /// Whether some code could not be read; then per name its [`Group`], the length (4 bytes, little-endian) and the bytes.
    text: Box<[u8]>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Group {
    Need,
    Define,
    Variable,
}

impl From<&DeviceSymbols> for Names {
    fn from(symbols: &DeviceSymbols) -> Self {
        let groups = [(Group::Need, &symbols.needs), (Group::Define, &symbols.defines), (Group::Variable, &symbols.variables)];
        let all = || groups.iter().flat_map(|(group, names)| names.iter().map(move |name| (*group, name)));
        // Nothing is left of a longer name: the units of a real build have none, and what could not be read says so.
        let length = |name: &Vec<u8>| u32::try_from(name.len()).ok();
        let mut text = Vec::with_capacity(1 + all().map(|(_, name)| 5 + name.len()).sum::<usize>());
        text.push(u8::from(symbols.opaque));
        for (group, name) in all() {
            let Some(length) = length(name) else {
                text[0] = 1;
                continue;
            };
            text.push(group as u8);
            text.extend(length.to_le_bytes());
            text.extend(name);
        }
        Self { text: text.into() }
    }
}

impl Names {
    /// Some code could not be read: names may be missing.
    pub fn opaque(&self) -> bool {
        self.text[0] != 0
    }

    /// Undefined names that another unit must define.
    pub fn needs(&self) -> impl Iterator<Item = &[u8]> {
        self.of(Group::Need)
    }

    /// Names that other units can refer to.
    pub fn defines(&self) -> impl Iterator<Item = &[u8]> {
        self.of(Group::Define)
    }

    /// Those of them that are variables.
    pub fn variables(&self) -> impl Iterator<Item = &[u8]> {
        self.of(Group::Variable)
    }

    fn of(&self, group: Group) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.text[1..];
        let all = std::iter::from_fn(move || {
            let (head, after) = rest.split_first_chunk::<5>()?;
            let (name, after) = after.split_at(u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize);
            rest = after;
            Some((head[0], name))
        });
        all.filter(move |(of, _)| *of == group as u8).map(|(_, name)| name)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn packed_names_come_back_in_their_groups() {
        let set = |names: &[&str]| names.iter().map(|n| n.as_bytes().to_vec()).collect();
        for (needs, defines, variables, opaque) in
            [(&[][..], &[][..], &[][..], true), (&["a", ""], &["b", "cc", "v"], &["v"], false), (&[], &["x"], &[], false)]
        {
            let symbols = DeviceSymbols { needs: set(needs), defines: set(defines), variables: set(variables), opaque };
            let names = Names::from(&symbols);
            let back = |names: &mut dyn Iterator<Item = &[u8]>| names.map(<[u8]>::to_vec).collect::<BTreeSet<_>>();
            assert_eq!(back(&mut names.needs()), symbols.needs);
            assert_eq!(back(&mut names.defines()), symbols.defines);
            assert_eq!(back(&mut names.variables()), symbols.variables);
            assert_eq!(names.opaque(), opaque);
        }
    }
}
