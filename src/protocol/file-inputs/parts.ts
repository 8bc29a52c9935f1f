// Finds the parts of a request that contain or refer to a file, in each API format. The parsed JSON may not have been
// validated, so everything that does not have the expected form is ignored. Pure.

type Json = Readonly<Record<string, unknown>>;

/** A file in a request: the ID of a stored file, or inline data. */
export type FileOrigin =
  | { readonly kind: 'id'; readonly id: string }
  /** `data` is base64 text or a data: URL. */
  | { readonly kind: 'data'; readonly data: string; readonly mediaType: string | null };

/** A file's contents in a form that can be included in a prompt. */
export type FileContents =
  | { readonly kind: 'text'; readonly text: string; readonly filename: string }
  /** `data` is base64 text. */
  | { readonly kind: 'image'; readonly mediaType: string; readonly data: string };

/** A part of a request that contains or refers to a file. */
export interface FilePart {
  readonly path: string;
  readonly origin: FileOrigin;
  /** The filename in the request. If null, the stored file's name is used. */
  readonly filename: string | null;
  /** The type of content that can replace this part. */
  readonly takes: 'image' | 'text' | 'both';
  /** Replaces this part of the request body with the contents of the file. */
  replace(contents: FileContents): void;
}

export type FileFormat = 'chat' | 'responses' | 'messages';

/** Returns the parts that contain or refer to files. replace() changes `body`, but copies the lists in it. */
export function filePartsOf(format: FileFormat, body: unknown): FilePart[] {
  if (!isObject(body)) return [];
  const found: FilePart[] = [];
  const field = format === 'responses' ? 'input' : 'messages';
  visit(body, field, field, (turn, turnPath) => {
    for (const list of format === 'responses' ? ['content', 'output'] : ['content'])
      visit(turn, list, `${turnPath}.${list}`, (part, path, place) => {
        const file = partOf(format, turn, part, { path, place });
        if (file !== null) found.push(file);
        if (format === 'messages' && turn['role'] === 'user') found.push(...nestedParts(part, path));
      });
  });
  return found;
}

/** The position of an entry in a list in the request. put() replaces the entry. */
interface Place {
  put(value: unknown): void;
}

interface At {
  readonly path: string;
  readonly place: Place;
}

type Visit = (entry: Record<string, unknown>, path: string, place: Place) => void;

/**
 * Calls `visitor` with each object in the list `owner[name]`. The list is copied before an entry is replaced, because
 * validate-in-slices.ts caches the result of a validation by list object.
 */
function visit(owner: Record<string, unknown>, name: string, path: string, visitor: Visit): void {
  const given = owner[name];
  if (!Array.isArray(given)) return;
  let copy: unknown[] | null = null;
  for (const [index, entry] of (given as unknown[]).entries()) {
    if (!isObject(entry)) continue;
    const place: Place = {
      put: (value) => {
        if (copy === null) owner[name] = copy = [...(given as unknown[])];
        copy[index] = value;
      },
    };
    visitor(entry, `${path}[${index}]`, place);
  }
}

function partOf(format: FileFormat, turn: Json, part: Json, at: At): FilePart | null {
  switch (format) {
    case 'chat':
      return turn['role'] === 'user' && part['type'] === 'file' ? chatPart(part['file'], at) : null;
    case 'responses':
      return turn['role'] === undefined || turn['role'] === 'user' ? responsesPart(part, at) : null;
    case 'messages':
      return turn['role'] === 'user' ? messagesPart(part, at) : null;
  }
}

function chatPart(file: unknown, { path, place }: At): FilePart | null {
  const origin = isObject(file) ? originOf(file) : null;
  if (!isObject(file) || origin === null) return null;
  return {
    path,
    origin,
    filename: textOf(file['filename']),
    takes: 'both',
    replace: (contents) =>
      place.put(
        contents.kind === 'text'
          ? { type: 'text', text: asText(contents) }
          : { type: 'image_url', image_url: { url: asUrl(contents) } },
      ),
  };
}

function responsesPart(part: Json, { path, place }: At): FilePart | null {
  const isImage = part['type'] === 'input_image';
  if (!isImage && part['type'] !== 'input_file') return null;
  const origin = isImage && part['image_url'] != null ? null : originOf(part);
  if (origin === null) return null;
  return {
    path,
    origin,
    filename: textOf(part['filename']),
    takes: isImage ? 'image' : 'both',
    replace: (contents) =>
      place.put(
        contents.kind === 'text'
          ? { type: 'input_text', text: asText(contents) }
          : { type: 'input_image', image_url: asUrl(contents), detail: part['detail'] ?? 'auto' },
      ),
  };
}

function messagesPart(part: Json, { path, place }: At): FilePart | null {
  const { type, source } = part;
  if ((type !== 'document' && type !== 'image') || !isObject(source)) return null;
  const id = textOf(source['file_id']);
  const data = textOf(source['data']);
  const origin: FileOrigin | null =
    source['type'] === 'file' && id !== null
      ? { kind: 'id', id }
      : type === 'document' && source['type'] === 'base64' && data !== null
        ? { kind: 'data', data, mediaType: textOf(source['media_type']) }
        : null;
  if (origin === null) return null;
  return {
    path: `${path}.source`,
    origin,
    filename: null,
    takes: type === 'image' ? 'image' : 'text',
    replace: (contents) =>
      place.put(
        contents.kind === 'text'
          ? { ...part, title: part['title'] ?? contents.filename, source: { type: 'text', data: contents.text } }
          : { ...part, source: { type: 'base64', media_type: contents.mediaType, data: contents.data } },
      ),
  };
}

/** Finds files in the blocks of a tool result or document, including documents within a tool result. */
function nestedParts(part: Record<string, unknown>, path: string): FilePart[] {
  const found: FilePart[] = [];
  const source = part['source'];
  const owner = part['type'] === 'tool_result' ? part : part['type'] === 'document' && isObject(source) ? source : null;
  if (owner === null) return found;
  visit(owner, 'content', owner === part ? `${path}.content` : `${path}.source.content`, (inner, at, place) => {
    const file = messagesPart(inner, { path: at, place });
    if (file !== null) found.push(file);
    if (part['type'] === 'tool_result' && inner['type'] === 'document') found.push(...nestedParts(inner, at));
  });
  return found;
}

/** Reads `file_id` or `file_data` of a part in OpenAI's formats. Returns null if both are absent. */
function originOf(part: Json): FileOrigin | null {
  const id = textOf(part['file_id']);
  if (id !== null) return { kind: 'id', id };
  const data = textOf(part['file_data']);
  return data === null ? null : { kind: 'data', data, mediaType: null };
}

/** Wraps a file's text in a <file> tag. The line breaks separate it from the text before and after it. */
const asText = ({ text, filename }: Extract<FileContents, { kind: 'text' }>): string =>
  `\n<file name=${JSON.stringify(filename)}>\n${text}\n</file>\n`;

const asUrl = ({ mediaType, data }: Extract<FileContents, { kind: 'image' }>): string =>
  `data:${mediaType};base64,${data}`;

const textOf = (value: unknown): string | null => (typeof value === 'string' && value !== '' ? value : null);

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
