// Reads images from a drop, a paste or a file dialog into data URLs. Images that the server would refuse are refused
// here, with the reason.
import type { Picture } from './conversation.js';

export const PICTURE_TYPES = 'image/png,image/jpeg,image/webp,image/gif';
/**
 * Equal to the default of the server's setting images.max_bytes. All images together must also fit in one request body.
 */
const MAX_BYTES = 20 * 1024 * 1024;
const MAX_ALL_CHARACTERS = 30 * 1024 * 1024;
const MAX_COUNT = 20;

/** The image files in a drop or paste. */
export function imageFiles(data: DataTransfer | null): File[] {
  return [...(data?.files ?? [])].filter(({ type }) => type.startsWith('image/'));
}

/** Throws an Error with a message for the user. */
export async function readPictures(files: readonly File[], already: readonly Picture[]): Promise<Picture[]> {
  if (already.length + files.length > MAX_COUNT) throw new Error(`A message can have at most ${MAX_COUNT} images.`);
  const pictures: Picture[] = [];
  for (const file of files) {
    if (!PICTURE_TYPES.split(',').includes(file.type))
      throw new Error(`${file.name}: only PNG, JPEG, WebP and GIF images are supported.`);
    if (file.size > MAX_BYTES) throw new Error(`${file.name} is larger than 20 MiB.`);
    pictures.push({ name: file.name === '' ? 'picture' : file.name, dataUrl: await dataUrlOf(file) });
  }
  const characters = [...already, ...pictures].reduce((sum, { dataUrl }) => sum + dataUrl.length, 0);
  if (characters > MAX_ALL_CHARACTERS) throw new Error('Together, these images are too large for one request.');
  return pictures;
}

function dataUrlOf(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result as string);
    reader.onerror = () => reject(new Error(`Could not read ${file.name}.`));
    reader.readAsDataURL(file);
  });
}
