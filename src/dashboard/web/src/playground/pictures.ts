// Pictures from a drop, a paste or a file dialog, read into data URLs. What the service would refuse is refused
// here at once, with the reason.
import type { Picture } from './conversation.js';

export const PICTURE_TYPES = 'image/png,image/jpeg,image/webp,image/gif';
/** As the service's images.max_bytes; all together they must fit into one request body. */
const MAX_BYTES = 20 * 1024 * 1024;
const MAX_ALL_CHARACTERS = 30 * 1024 * 1024;
const MAX_COUNT = 20;

/** The image files of a drop or paste. */
export function imageFiles(data: DataTransfer | null): File[] {
  return [...(data?.files ?? [])].filter(({ type }) => type.startsWith('image/'));
}

/** Throws an Error whose message can be shown. */
export async function readPictures(files: readonly File[], already: readonly Picture[]): Promise<Picture[]> {
  if (already.length + files.length > MAX_COUNT) throw new Error(`At most ${MAX_COUNT} pictures in one message.`);
  const pictures: Picture[] = [];
  for (const file of files) {
    if (!PICTURE_TYPES.split(',').includes(file.type))
      throw new Error(`${file.name}: only PNG, JPEG, WebP and GIF pictures can be read.`);
    if (file.size > MAX_BYTES) throw new Error(`${file.name} is larger than 20 MiB.`);
    pictures.push({ name: file.name === '' ? 'picture' : file.name, dataUrl: await dataUrlOf(file) });
  }
  const characters = [...already, ...pictures].reduce((sum, { dataUrl }) => sum + dataUrl.length, 0);
  if (characters > MAX_ALL_CHARACTERS) throw new Error('These pictures together are too large for one request.');
  return pictures;
}

function dataUrlOf(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result as string);
    reader.onerror = () => reject(new Error(`${file.name} could not be read.`));
    reader.readAsDataURL(file);
  });
}
