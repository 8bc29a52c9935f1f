// Writes small PDF files, valid and malicious, for tests of the text in PDF files.
import { deflateSync } from 'node:zlib';

type Page = readonly string[] | { readonly content: Buffer; readonly filter?: string };

interface PdfOptions {
  /** Encrypted with a password that nobody knows. */
  readonly encrypted?: boolean;
  /** Entries of the font's dictionary. */
  readonly font?: string;
  /** Number of pages that the file claims to have. */
  readonly count?: number;
}

const HELVETICA = '/Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding';

/** Returns a PDF file. A page is a list of lines, or a content stream. */
export function pdfOf(pages: readonly Page[], { encrypted = false, font = HELVETICA, count }: PdfOptions = {}): Buffer {
  const kids = pages.map((_, index) => `${4 + 2 * index} 0 R`).join(' ');
  const objects: (string | Buffer)[] = [
    '<< /Type /Catalog /Pages 2 0 R >>',
    `<< /Type /Pages /Count ${count ?? pages.length} /Kids [${kids}] >>`,
    `<< /Type /Font ${font} >>`,
  ];
  for (const [index, page] of pages.entries()) {
    const { content, filter } = 'content' in page ? page : { content: linesOf(page), filter: undefined };
    objects.push(
      `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >> /Contents ${5 + 2 * index} 0 R >>`,
      streamOf(content, filter === undefined ? '' : `/Filter ${filter}`),
    );
  }
  return fileOf(
    objects,
    encrypted
      ? `/Encrypt << /Filter /Standard /V 1 /R 2 /O <${'17'.repeat(32)}> /U <${'29'.repeat(32)}> /P -4 >> /ID [<00> <00>]`
      : '',
  );
}

/** Returns a PDF file with one page, whose content stream is compressed `times` times. */
export function bombOf(content: Buffer, times = 1): Buffer {
  let packed = content;
  for (let round = 0; round < times; round++) packed = deflateSync(packed, { level: 9 });
  return pdfOf([{ content: packed, filter: `[${' /FlateDecode'.repeat(times)}]` }]);
}

const streamOf = (content: Buffer, entries: string): Buffer =>
  Buffer.concat([
    Buffer.from(`<< /Length ${content.length} ${entries} >>\nstream\n`),
    content,
    Buffer.from('\nendstream'),
  ]);

/** A content stream with one line of text below the other. */
const linesOf = (lines: readonly string[]): Buffer =>
  Buffer.from(
    `BT /F1 12 Tf 72 720 Td ${lines.map((line) => `${line.startsWith('<') ? line : `(${line.replace(/[\\()]/g, '\\$&')})`} Tj 0 -14 Td`).join(' ')} ET`,
    'latin1',
  );

function fileOf(objects: readonly (string | Buffer)[], trailer: string): Buffer {
  const parts: Buffer[] = [Buffer.from('%PDF-1.7\n')];
  let at = parts[0]!.length;
  const add = (part: string | Buffer): void => {
    const bytes = typeof part === 'string' ? Buffer.from(part, 'latin1') : part;
    parts.push(bytes);
    at += bytes.length;
  };
  const offsets = objects.map((object, index) => {
    const offset = at;
    add(`${index + 1} 0 obj\n`);
    add(object);
    add('\nendobj\n');
    return `${String(offset).padStart(10, '0')} 00000 n \n`;
  });
  const size = objects.length + 1;
  const table = at;
  add(`xref\n0 ${size}\n0000000000 65535 f \n${offsets.join('')}`);
  add(`trailer << /Size ${size} /Root 1 0 R ${trailer} >>\nstartxref\n${table}\n%%EOF\n`);
  return Buffer.concat(parts);
}
