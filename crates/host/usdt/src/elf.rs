//! The notes of a program, read back: what `readelf -n` shows, with where in the file things are, which is how the
//! kernel wants to be told.

use std::fmt;

/// One point in a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    /// Provider of the point.
    pub provider: String,
    /// Its name.
    pub name: String,
    /// Its arguments: `8@%rdi 8@%rsi`.
    pub args: String,
    /// Where in the file its `nop` is.
    pub place: u64,
    /// Place as perf computes it: as far from its address as `.stapsdt.base` is from the address that the note
    /// names.
    pub place_by_base: u64,
    /// Where in the file its semaphore is.
    pub semaphore: u64,
}

/// Why no notes could be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ElfError {
    /// No ELF file of 64 bits, least byte first.
    Kind,
    /// An offset in the file leads outside of it.
    Bounds,
}

impl fmt::Display for ElfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ElfError::Kind => "no ELF file of 64 bits, least byte first",
            ElfError::Bounds => "an ELF file that leads outside of itself",
        })
    }
}

impl std::error::Error for ElfError {}

type Found<T> = Result<T, ElfError>;

/// Bytes at places that a file names.
#[derive(Clone, Copy)]
struct File<'a>(&'a [u8]);

impl<'a> File<'a> {
    fn part(self, at: u64, len: u64) -> Found<&'a [u8]> {
        let end = at.checked_add(len).ok_or(ElfError::Bounds)?;
        let part = usize::try_from(at).ok().zip(usize::try_from(end).ok());
        part.and_then(|(at, end)| self.0.get(at..end)).ok_or(ElfError::Bounds)
    }

    /// A number of `N` bytes, 8 at most.
    fn number<const N: usize>(self, at: u64) -> Found<u64> {
        let mut bytes = [0; 8];
        bytes[..N].copy_from_slice(self.part(at, N as u64)?);
        Ok(u64::from_le_bytes(bytes))
    }
}

/// The loaded part of a file: address, place in the file, bytes.
struct Segment {
    address: u64,
    offset: u64,
    len: u64,
}

/// Every point of `elf`, an executable or a shared library.
///
/// # Errors
/// It is no such file, or a broken one.
pub fn notes(elf: &[u8]) -> Result<Vec<Note>, ElfError> {
    let file = File(elf);
    if elf.get(..6) != Some(b"\x7fELF\x02\x01") {
        return Err(ElfError::Kind);
    }
    let segments = segments(file)?;
    let sections = (file.number::<8>(40)?, file.number::<2>(58)?, file.number::<2>(60)?);
    let mut found = Vec::new();
    for index in 0..sections.2 {
        let header = sections.0.checked_add(index * sections.1).ok_or(ElfError::Bounds)?;
        const NOTES: u64 = 7;
        if file.number::<4>(header + 4)? == NOTES {
            let part = file.part(file.number::<8>(header + 24)?, file.number::<8>(header + 32)?)?;
            read(part, &segments, &mut found)?;
        }
    }
    Ok(found)
}

fn segments(file: File<'_>) -> Found<Vec<Segment>> {
    let (first, size, count) = (file.number::<8>(32)?, file.number::<2>(54)?, file.number::<2>(56)?);
    let mut segments = Vec::new();
    for index in 0..count {
        let header = first.checked_add(index * size).ok_or(ElfError::Bounds)?;
        const LOADED: u64 = 1;
        if file.number::<4>(header)? == LOADED {
            segments.push(Segment {
                offset: file.number::<8>(header + 8)?,
                address: file.number::<8>(header + 16)?,
                len: file.number::<8>(header + 32)?,
            });
        }
    }
    Ok(segments)
}

/// The points among the notes of one section.
fn read(section: &[u8], segments: &[Segment], found: &mut Vec<Note>) -> Found<()> {
    let file = File(section);
    let mut at = 0;
    while at < section.len() as u64 {
        let (name_len, len, kind) =
            (file.number::<4>(at)?, file.number::<4>(at + 4)?, file.number::<4>(at + 8)?);
        let name = file.part(at + 12, name_len)?;
        let begin = at + 12 + name_len.next_multiple_of(4);
        if name == b"stapsdt\0" && kind == 3 {
            let note = File(file.part(begin, len)?);
            let text = note.part(24, len.checked_sub(24).ok_or(ElfError::Bounds)?)?;
            let mut texts =
                text.split(|&byte| byte == 0).map(|text| String::from_utf8_lossy(text).into_owned());
            let mut next = || texts.next().ok_or(ElfError::Bounds);
            let in_file = |address: u64| {
                let segment = segments.iter().find(|s| (s.address..s.address + s.len).contains(&address));
                segment.map(|segment| address - segment.address + segment.offset).ok_or(ElfError::Bounds)
            };
            let (address, base) = (note.number::<8>(0)?, note.number::<8>(8)?);
            found.push(Note {
                provider: next()?,
                name: next()?,
                args: next()?,
                place: in_file(address)?,
                place_by_base: address.wrapping_sub(base).wrapping_add(in_file(base)?),
                semaphore: in_file(note.number::<8>(16)?)?,
            });
        }
        at = begin + len.next_multiple_of(4);
    }
    Ok(())
}
