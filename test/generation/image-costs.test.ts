// Tests image files that cost the decoder far more than their size or pixel count suggests.
import sharp from 'sharp';
import t from 'tap';
import { decodeImage, decodeRgb } from '../../src/generation/images/decode-image.js';
import { isSlow } from '../../src/generation/images/decoders.js';
import { firstFrame } from '../../src/generation/images/first-frame.js';
import type { LoadedImage } from '../../src/generation/types.js';
import { gifOfFrames, jpegOfScans, jpegSegments, pngWithComments, webpOfFrames } from '../support/hostile-images.js';

const PATH = 'messages[0].content[0].image_url';
type Format = LoadedImage['format'];

const decode = (bytes: Buffer, organization = 1, signal?: AbortSignal): Promise<LoadedImage> =>
  decodeImage(bytes, { path: PATH, requester: { organization, signal }, known: 'nothing', spend: () => undefined });
const pixels = (image: LoadedImage): Promise<Buffer> =>
  decodeRgb(image, { path: PATH, requester: { organization: 1 } }, async (data) => Buffer.from(data));
const sharpPixels = (bytes: Buffer): Promise<Buffer> =>
  sharp(bytes, { pages: 1, ignoreIcc: true }).autoOrient().removeAlpha().toColourspace('srgb').raw().toBuffer();

const noise = sharp(Buffer.from(Array.from({ length: 64 * 48 * 3 }, (_, i) => (i * 7919) % 251)), {
  raw: { width: 64, height: 48, channels: 3 },
});
const png = await noise.clone().png().toBuffer();

t.test('accepts a JPEG with up to 100 scans', async (t) => {
  for (const kind of ['progressive', 'sequential'] as const) {
    t.match(await decode(jpegOfScans(64, 100, kind)), { width: 64, height: 64 }, kind);
    for (const scans of [101, 5_000]) {
      await t.rejects(
        decode(jpegOfScans(64, scans, kind)),
        { status: 422, code: 'invalid_image', param: PATH, message: `${PATH}: the JPEG has more than 100 scans.` },
        `${kind}, ${scans}`,
      );
    }
  }
  const scan = jpegOfScans(64, 101).subarray(-20, -2);
  t.match(
    await decode(Buffer.concat([jpegOfScans(64, 100), scan])),
    { width: 64 },
    'bytes after the end are not scans',
  );
  const thumbnail = Buffer.concat([
    Buffer.from([0xff, 0xe1, 0x4e, 0x22]),
    Buffer.alloc(20_000, Buffer.from([0xff, 0xda])),
  ]);
  t.match(
    await decode(jpegOfScans(64, 100, 'progressive', thumbnail)),
    { width: 64 },
    'bytes inside a segment are not scans',
  );
  const fill = Buffer.alloc(9_000, 0xff);
  await t.rejects(
    decode(jpegOfScans(64, 101, 'progressive', fill)),
    { code: 'invalid_image' },
    'fill bytes do not hide a scan',
  );
});

t.test('removes blocks that change no pixel before decoding', async (t) => {
  const dot = await sharp({ create: { width: 1, height: 1, channels: 3, background: 'red' } })
    .webp({ lossless: true })
    .toBuffer();
  const cases: [string, Format, Buffer, number][] = [
    ['compressed comments of a PNG', 'png', pngWithComments(png, 100), png.length],
    ['frames of a GIF', 'gif', gifOfFrames(100_000), 60],
    ['frames of a WebP', 'webp', webpOfFrames(dot, 100_000), 120],
    ['application segments of a JPEG', 'jpeg', jpegOfScans(64, 1, 'progressive', jpegSegments(0xed, 100_000)), 300],
    ['comments of a JPEG', 'jpeg', jpegOfScans(64, 1, 'progressive', jpegSegments(0xfe, 100_000)), 300],
    [
      'Exif segments of a JPEG',
      'jpeg',
      jpegOfScans(64, 1, 'progressive', Buffer.alloc(1_000_000, Buffer.from('\xff\xe1\x00\x08Exif\0\0', 'latin1'))),
      300,
    ],
  ];
  for (const [what, format, bytes, atMost] of cases) {
    const { bytes: frame } = await firstFrame(bytes, format, PATH);
    t.ok(frame.length <= atMost, `${what}: ${frame.length} of ${bytes.length} bytes`);
    const image = await decode(bytes);
    t.equal(image.bytes, bytes, 'the original file is kept');
    t.ok((await pixels(image)).equals(await sharpPixels(Buffer.from(frame))));
  }
});

t.test('keeps the pixels and the orientation', async (t) => {
  const turned = noise.clone().withMetadata({ orientation: 6 });
  const frames = [png, await noise.clone().negate().png().toBuffer()];
  const files: [string, Buffer][] = [
    ['JPEG', await turned.clone().withIccProfile('p3').jpeg({ progressive: true }).toBuffer()],
    ['CMYK JPEG', await noise.clone().toColourspace('cmyk').jpeg().toBuffer()],
    ['PNG', await turned.clone().png({ palette: true }).toBuffer()],
    ['interlaced PNG', await turned.clone().png({ progressive: true }).toBuffer()],
    ['WebP', await turned.clone().webp().toBuffer()],
    [
      'animated WebP',
      await sharp(frames, { join: { animated: true } })
        .webp({ lossless: true })
        .toBuffer(),
    ],
    [
      'animated GIF',
      await sharp(frames, { join: { animated: true } })
        .gif()
        .toBuffer(),
    ],
  ];
  for (const [what, bytes] of files) t.ok((await pixels(await decode(bytes))).equals(await sharpPixels(bytes)), what);
});

t.test('refuses files truncated at any point', async (t) => {
  const animated = await sharp([png, png], { join: { animated: true } })
    .webp({ lossless: true })
    .toBuffer();
  for (const [what, bytes] of [
    ['PNG with a comment', pngWithComments(png, 1)],
    ['GIF', gifOfFrames(1)],
    ['WebP', animated],
    ['JPEG', jpegOfScans(64, 3)],
  ] as const) {
    for (const length of [12, 20, 30, Math.floor(bytes.length / 3)])
      await t.rejects(decode(bytes.subarray(0, length)), { code: /invalid_image/ }, `${what}, ${length} bytes`);
  }
});

t.test('slow images from one organization leave a decoder free', async (t) => {
  t.notOk(isSlow({ bytes: 5e6, pixels: 12e6, scans: 1 }), 'a photo is not slow');
  t.ok(isSlow({ bytes: 5e6, pixels: 50e6, scans: 1 }));
  t.ok(isSlow({ bytes: 2e4, pixels: 4e6, scans: 100 }));
  t.ok(isSlow({ bytes: 20e6, pixels: 4096, scans: 1 }), 'an image has far more bytes than pixels');

  const done: string[] = [];
  const slow = jpegOfScans(2_500, 100);
  const gone = new AbortController();
  const loads = Array.from({ length: 4 }, (_, at) =>
    decode(Buffer.concat([slow, Buffer.from([at])]), 1, gone.signal).then(
      () => done.push('slow'),
      () => done.push('dropped'),
    ),
  );
  await new Promise((resolve) => {
    setTimeout(resolve, 20);
  }); // by now, the slow images are being decoded
  await decode(png, 2);
  done.push('small');
  gone.abort(new Error('gone'));
  await Promise.all(loads);
  t.equal(done[0], 'small', done.join());
  t.equal(
    done.filter((what) => what === 'dropped').length,
    3,
    'after a disconnect, only the image being decoded is finished',
  );
});
