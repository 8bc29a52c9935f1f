// Reads the parts of a little-endian ELF-64 file that are needed to patch a few of its bytes: load addresses,
// relocations, and symbols imported from other libraries. No side effects; safe to call from any thread. Throws a
// RangeError if the file is corrupt. Sources: System V ABI, chapters 4 and 5; Linux Standard Base, "Symbol Versioning".

export interface Elf {
  /** The ELF machine number: 62 is x86-64, 183 is 64-bit ARM. */
  machine: number;
  /** Returns the virtual address of a file offset, or null. */
  addressOf(offset: number): number | null;
  offsetOf(address: number): number | null;
  /**
   * Returns the RELA entries whose addend is `address`. `target`: the address that the entry writes to. `addendAt`: the
   * file offset of the addend.
   */
  relocationsTo(address: number): { target: number; addendAt: number }[];
  symbols(): ElfSymbol[];
  /** Returns the symbol versions that the file requires from other libraries. */
  needs(): ElfNeed[];
}

export interface ElfSymbol {
  name: string;
  /** Whether the symbol is imported from another library. */
  foreign: boolean;
  /** Number of the required version. It refers to an entry of `needs()`. */
  version: number;
  /** File offsets of the symbol's name offset (32 bits) and its version number (16 bits). */
  nameAt: number;
  versionAt: number;
}

export interface ElfNeed {
  library: string;
  version: string;
  number: number;
  /** File offsets of the version's hash and its name offset (32 bits each). */
  hashAt: number;
  nameAt: number;
}

const LOAD = 1;
const RELA = 4;
const DYNSYM = 11;
const VERNEED = 0x6ffffffe;
const VERSYM = 0x6fffffff;
const SYMBOL_BYTES = 24;

/** Returns null if the file is not a little-endian ELF-64 file. */
export function readElf(file: Buffer): Elf | null {
  if (file.length < 64 || file.readUInt32BE(0) !== 0x7f454c46 || file[4] !== 2 || file[5] !== 1) return null;
  const u16 = (at: number): number => file.readUInt16LE(at);
  const u32 = (at: number): number => file.readUInt32LE(at);
  const u64 = (at: number): number => Number(file.readBigUInt64LE(at));
  const table = (start: number, count: number, size: number): number[] =>
    Array.from({ length: count }, (_, i) => start + i * size);
  const loads = table(u64(0x20), u16(0x38), u16(0x36))
    .filter((at) => u32(at) === LOAD)
    .map((at) => ({ offset: u64(at + 8), address: u64(at + 16), size: u64(at + 32) }));
  const sections = table(u64(0x28), u16(0x3c), u16(0x3a)).map((at) => ({
    type: u32(at + 4),
    start: u64(at + 24),
    size: u64(at + 32),
    link: u32(at + 40),
  }));
  const ofType = (type: number): typeof sections => sections.filter((one) => one.type === type);
  const textAt = (section: number, offset: number): string => {
    const at = (sections[section]?.start ?? file.length) + offset;
    return file.toString('latin1', at, file.indexOf(0, at));
  };
  return {
    machine: u16(0x12),
    addressOf: (offset) => {
      const load = loads.find((one) => offset >= one.offset && offset < one.offset + one.size);
      return load === undefined ? null : offset - load.offset + load.address;
    },
    offsetOf: (address) => {
      const load = loads.find((one) => address >= one.address && address < one.address + one.size);
      return load === undefined ? null : address - load.address + load.offset;
    },
    relocationsTo: (address) =>
      ofType(RELA).flatMap(({ start, size }) =>
        table(start, Math.floor(size / 24), 24)
          .filter((at) => u64(at + 16) === address)
          .map((at) => ({ target: u64(at), addendAt: at + 16 })),
      ),
    symbols: () => {
      const [versions] = ofType(VERSYM);
      return ofType(DYNSYM).flatMap(({ start, size, link }) =>
        table(start, Math.floor(size / SYMBOL_BYTES), SYMBOL_BYTES).map((at, i) => {
          const versionAt = (versions?.start ?? file.length) + i * 2;
          return {
            name: textAt(link, u32(at)),
            foreign: u16(at + 6) === 0,
            version: u16(versionAt) & 0x7fff,
            nameAt: at,
            versionAt,
          };
        }),
      );
    },
    needs: () =>
      ofType(VERNEED).flatMap(({ start, size, link }) => {
        const found: ElfNeed[] = [];
        // Walks two nested linked lists. Each loop ends when the offset to the next entry is not positive, so a corrupt
        // file cannot make it run forever.
        for (let at = start, step = 1; step > 0 && at + 16 <= start + size; at += step) {
          const library = textAt(link, u32(at + 4));
          for (let need = at + u32(at + 8), next = 1; next > 0 && need + 16 <= start + size; need += next) {
            found.push({
              library,
              version: textAt(link, u32(need + 8)),
              number: u16(need + 6),
              hashAt: need,
              nameAt: need + 8,
            });
            next = u32(need + 12);
          }
          step = u32(at + 12);
        }
        return found;
      }),
  };
}
