//! As much of the WebAssembly binary format as it takes to read the import section.
//! (WebAssembly Core Specification 2.0, sections 5.2 and 5.5.)

const PREAMBLE: [u8; 8] = *b"\0asm\x01\0\0\0";
const IMPORT_SECTION: u8 = 2;

/// Every import of a module, as `module.name`.
pub(super) fn imports(binary: &[u8]) -> Result<Vec<String>, &'static str> {
    let mut module = Reader(binary);
    if module.take(PREAMBLE.len())? != PREAMBLE {
        return Err("it does not begin as a version 1 module does");
    }
    let mut found = Vec::new();
    let mut sections = 0;
    while !module.0.is_empty() {
        let id = module.byte()?;
        let len = module.number()? as usize;
        let mut section = Reader(module.take(len)?);
        sections += 1;
        if id == IMPORT_SECTION {
            for _ in 0..section.number()? {
                found.push(section.import()?);
            }
            if !section.0.is_empty() {
                return Err("the import section is longer than its imports");
            }
        }
    }
    if sections == 0 { Err("it has no section at all") } else { Ok(found) }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], &'static str> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or("it ends too early")?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, &'static str> {
        Ok(self.take(1)?[0])
    }

    /// An unsigned LEB128 number of 32 bits.
    fn number(&mut self) -> Result<u32, &'static str> {
        let mut value = 0u64;
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return u32::try_from(value).map_err(|_| "a number is too large");
            }
        }
        Err("a number is too long")
    }

    fn name(&mut self) -> Result<&'a str, &'static str> {
        let len = self.number()? as usize;
        std::str::from_utf8(self.take(len)?).map_err(|_| "a name is not UTF-8")
    }

    fn import(&mut self) -> Result<String, &'static str> {
        let name = format!("{}.{}", self.name()?, self.name()?);
        match self.byte()? {
            0x00 => drop(self.number()?),
            0x01 => {
                self.byte()?;
                self.limits()?;
            }
            0x02 => self.limits()?,
            0x03 => drop(self.take(2)?),
            _ => return Err("an import of unknown kind"),
        }
        Ok(name)
    }

    fn limits(&mut self) -> Result<(), &'static str> {
        let bounded = self.byte()? & 1 == 1;
        self.number()?;
        if bounded {
            self.number()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! Goal: imports of every kind are found, and a damaged module is an error, never "no imports".
    use super::*;

    fn module(sections: &[(u8, &[u8])]) -> Vec<u8> {
        let mut binary = PREAMBLE.to_vec();
        for (id, content) in sections {
            binary.extend([*id, content.len() as u8]);
            binary.extend(*content);
        }
        binary
    }

    #[test]
    fn a_module_without_imports() {
        assert_eq!(imports(&module(&[(1, &[0]), (3, &[0])])), Ok(vec![]));
        assert_eq!(imports(&module(&[(2, &[0])])), Ok(vec![]));
    }

    #[test]
    fn imports_of_every_kind() {
        let section =
            b"\x04\x03env\x01f\x00\x81\x01\x03env\x01t\x01\x70\x01\x02\x80\x02\x03env\x01m\x02\x00\x11\
            \x01h\x01g\x03\x7f\x00";
        assert_eq!(
            imports(&module(&[(1, &[0]), (2, section), (3, &[0])])),
            Ok(vec!["env.f".into(), "env.t".into(), "env.m".into(), "h.g".into()])
        );
    }

    #[test]
    fn damage_is_an_error() {
        let whole = module(&[(2, b"\x01\x03env\x01f\x00\x05")]);
        assert_eq!(imports(&whole), Ok(vec!["env.f".into()]));
        for end in 0..whole.len() {
            assert!(imports(&whole[..end]).is_err(), "cut after {end} bytes");
        }
        assert!(imports(&module(&[(2, b"\x01\x03env\x01f\x09\x05")])).is_err());
        assert!(imports(&module(&[(2, b"\x00\x00")])).is_err());
        assert!(imports(&module(&[(2, b"\xff\xff\xff\xff\xff\x01")])).is_err());
        assert!(imports(b"\0asm\x02\0\0\0\x01\x01\0").is_err());
    }
}
