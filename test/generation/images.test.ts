// Tests images from base64, data: URLs and a real HTTPS server, and every case that must be refused.
import { once } from 'node:events';
import { createServer } from 'node:https';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import sharp from 'sharp';
import t from 'tap';
import { configWith } from '../../src/config/load.js';
import { ApiError } from '../../src/shared/errors.js';
import type { FetchDeps } from '../../src/generation/images/fetch-image.js';
import { decodeRgb } from '../../src/generation/images/decode-image.js';
import { ImageBudget } from '../../src/generation/images/held-images.js';
import { createImageLoader } from '../../src/generation/images/load-images.js';
import { isPublicAddress } from '../../src/shared/public-address.js';
import { eventually } from '../e2e/monolith.js';
import { cpuTime } from '../support/cpu-time.js';
import type { ImageSource, LoadedImage, Message } from '../../src/generation/types.js';
import { selfSigned } from '../support/certificate.js';

const picture = (width: number, height: number) =>
  sharp({ create: { width, height, channels: 3, background: { r: 200, g: 30, b: 90 } } });
const noise = sharp(Buffer.from(Array.from({ length: 64 * 48 * 3 }, (_, i) => (i * 7919) % 251)), {
  raw: { width: 64, height: 48, channels: 3 },
});
const png = await noise.clone().png().toBuffer();
const jpeg = await noise.clone().jpeg().toBuffer();
const webp = await noise.clone().webp().toBuffer();
const gif = await noise.clone().gif().toBuffer();

const PATH = 'messages[0].content[1].image_url';
const message = (...sources: ImageSource[]): Message => ({
  role: 'user',
  content: [
    { type: 'text', text: 'Look:' },
    ...sources.map((source, i) => ({
      type: 'image' as const,
      source,
      detail: 'auto' as const,
      path: `messages[0].content[${i + 1}].image_url`,
    })),
  ],
});
const url = (text: string): ImageSource => ({ kind: 'url', url: text });
const base64 = (bytes: Buffer): ImageSource => ({ kind: 'base64', data: bytes.toString('base64') });

const claimant = { organization: 1 };

type Settings = Partial<ReturnType<typeof configWith>['images']>;

async function load(
  sources: ImageSource[],
  settings: Settings = {},
  world: Partial<FetchDeps> = {},
): Promise<LoadedImage[]> {
  const loader = createImageLoader({ ...configWith({}).images, ...settings }, world);
  const [loaded] = await loader.load([message(...sources)], claimant, loader.hold(1, false));
  if (typeof loaded?.content !== 'object' || loaded.content === null)
    throw new Error('the message has no content parts');
  return loaded.content.flatMap((part) =>
    part.type === 'image' && part.source.kind === 'loaded' ? [part.source.image] : [],
  );
}

async function refusal(
  sources: ImageSource[],
  settings: Settings = {},
  world: Partial<FetchDeps> = {},
): Promise<{ code: string; param: string | null; message: string } | null> {
  try {
    await load(sources, settings, world);
    return null;
  } catch (error) {
    if (error instanceof ApiError) return { code: error.code, param: error.param, message: error.message };
    throw error;
  }
}

t.test('detects the four formats by their bytes', async (t) => {
  const dataUrl = (bytes: Buffer, declared: string): ImageSource =>
    url(`data:${declared};base64,${bytes.toString('base64')}`);
  for (const [format, bytes] of Object.entries({ png, jpeg, webp, gif })) {
    for (const source of [base64(bytes), dataUrl(bytes, 'image/png'), dataUrl(bytes, 'text/plain;charset=utf-8')]) {
      const [image] = await load([source]);
      t.match(image, { format, width: 64, height: 48 });
      t.ok(Buffer.from(image!.bytes).equals(bytes), 'the original file is kept');
    }
  }
  t.match(
    await load([base64(png), base64(gif)]),
    [{ format: 'png' }, { format: 'gif' }],
    'images are returned in the order of the request',
  );
  const animated = await sharp([png, png, png], { join: { animated: true } })
    .gif()
    .toBuffer();
  t.match(
    await load([base64(animated)]),
    [{ format: 'gif', width: 64, height: 48 }],
    'the size is that of the first frame of an animation',
  );
});

t.test('returns messages without images, or with loaded images, unchanged', async (t) => {
  const loader = createImageLoader(configWith({}).images);
  const messages: Message[] = [
    { role: 'system', content: 'x' },
    { role: 'assistant', content: null },
    { role: 'user', content: [{ type: 'text', text: 'y' }] },
  ];
  t.equal(await loader.load(messages, claimant, loader.hold(1, false)), messages);
  const loaded = await loader.load([...messages, message(base64(png))], claimant, loader.hold(1, false));
  t.equal(await loader.load(loaded, claimant, loader.hold(1, false)), loaded);
  t.equal(loaded[2], messages[2]);
});

t.test('refuses data that is not an image or is damaged', async (t) => {
  const svg = Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>');
  const tiff = Buffer.from('49492a0008000000', 'hex');
  for (const bytes of [svg, tiff, Buffer.from('%PDF-1.7'), Buffer.from('hello'), Buffer.from('RIFF1234WAVE')]) {
    t.match(await refusal([base64(bytes)]), { code: 'unsupported_image_format', param: PATH });
  }
  const flipped = Buffer.from(png);
  flipped[png.length - 30]! ^= 0xff;
  const broken: ImageSource[] = [
    base64(png.subarray(0, png.length / 2)),
    base64(jpeg.subarray(0, jpeg.length / 2)),
    base64(webp.subarray(0, webp.length / 2)),
    base64(gif.subarray(0, gif.length / 2)),
    base64(flipped),
    base64(png.subarray(0, 8)),
    { kind: 'base64', data: '' },
    { kind: 'base64', data: `!${png.toString('base64').slice(1)}` },
    { kind: 'base64', data: png.toString('base64').slice(0, -3) },
    { kind: 'base64', data: 'iVBO\nRw0K' },
    { kind: 'base64', data: 'iVBO-_0K' },
    { kind: 'base64', data: 'iV==BORw' },
    url('data:image/png,hello'),
    url('data:image/png;base64'),
    url(`data:${'x'.repeat(300)};base64,AAAA`),
    url('data:image/png;base64,%41AAA'),
  ];
  for (const source of broken)
    t.match(await refusal([source]), { code: 'invalid_image', param: PATH }, JSON.stringify(source).slice(0, 80));
});

t.test('enforces the limits on pixels, bytes and number of images', async (t) => {
  const large = await picture(300, 200).png().toBuffer();
  t.match(await refusal([base64(large)], { max_pixels: 59_999 }), {
    code: 'image_too_large',
    param: PATH,
    message: /300 x 200/,
  });
  t.equal(await refusal([base64(large)], { max_pixels: 60_000 }), null);
  t.match(await refusal([base64(png)], { max_bytes: png.length - 1 }), { code: 'image_too_large', param: PATH });
  t.equal(await refusal([base64(png)], { max_bytes: png.length }), null);
  const many = Array.from({ length: 7 }, () => base64(png));
  t.match(await refusal(many, { max_per_request: 6 }), {
    code: 'too_many_images',
    param: 'messages[0].content[7].image_url',
  });
  t.equal(await refusal(many, { max_bytes: png.length }), null, 'repeated copies of one image count once');
  const distinct = many.map((_, i) => base64(Buffer.concat([png, Buffer.from([i])])));
  t.match(await refusal(distinct, { max_bytes: png.length + 1 }), { code: 'image_too_large', message: /in total/ });
  t.match(
    await refusal([base64(png), url('data:,'), base64(Buffer.from('hello'))]),
    { code: 'invalid_image', param: 'messages[0].content[2].image_url' },
    'the first fault is reported',
  );
  // A file of a few kilobytes that claims to have 2.5 billion pixels: refused because of its header.
  const bomb = Buffer.from(png);
  bomb.writeUInt32BE(50_000, 16);
  bomb.writeUInt32BE(50_000, 20);
  const spent = cpuTime();
  t.match(await refusal([base64(bomb)]), { code: /image_too_large|invalid_image/ });
  t.ok(spent() < 2_000);
});

t.test('limits total pixels, counting each distinct image once', async (t) => {
  const large = (hue: number): Promise<Buffer> => picture(300, 200).tint({ r: hue, g: 0, b: 0 }).png().toBuffer();
  const eight = await Promise.all([10, 20, 30, 40, 50, 60, 70, 80].map(large));
  const settings: Settings = { max_pixels: 60_000 };
  t.equal((await load(eight.map(base64), settings)).length, 8);
  t.match(await refusal([...eight, await large(90)].map(base64), settings), {
    code: 'image_too_large',
    message: /in total/,
  });
  const again = await load(
    Array.from({ length: 30 }, () => base64(eight[0]!)),
    settings,
  );
  t.equal(again.length, 30);
  t.equal(new Set(again).size, 1, 'the same image is decoded once');
  t.equal((await load([...eight, eight[1]!].map(base64), settings))[8]!.width, 300);
  const before = eight.map((bytes): ImageSource => ({ kind: 'bytes', bytes }));
  t.match(
    (await load([...before, base64(await large(91)), base64(await large(92))], settings))[7],
    { format: 'png', width: 300, height: 200 },
    'images of earlier requests are not counted again',
  );
});

t.test('stops when the client disconnects, and limits an organization with many images', async (t) => {
  const big = await sharp({ create: { width: 5_000, height: 5_000, channels: 3, background: 'red' } })
    .png()
    .toBuffer();
  // The bytes differ, so none is cached yet.
  const bodies = Array.from({ length: 24 }, (_, i) => base64(Buffer.concat([big, Buffer.from([i])])));
  const loader = createImageLoader({ ...configWith({}).images, max_pixels: 1e9 });
  // Load the image library before the measurement.
  await loader.load([message(base64(png))], claimant, loader.hold(1, false));
  const client = new AbortController();
  let done = 0;
  const loads = Array.from({ length: 6 }, (_, i) =>
    loader
      .load(
        [message(...bodies.slice(4 * i, 4 * i + 4))],
        { organization: 1, signal: client.signal },
        loader.hold(1, false),
      )
      .finally(() => done++),
  );
  const outcomes = Promise.allSettled(loads);
  await loader.load([message(base64(png))], { organization: 2 }, loader.hold(2, false));
  t.ok(done < 3, `another organization's image does not wait for all of them (${done} of 6 requests were done)`);
  client.abort(new Error('gone'));
  const spent = cpuTime();
  t.match((await outcomes).at(-1), { status: 'rejected', reason: { message: 'gone' } });
  await loader.load([message(base64(png))], { organization: 1 }, loader.hold(1, false));
  t.ok(spent() < 3_000, `waiting images are dropped: ${spent().toFixed()} ms of CPU time`);
  await t.rejects(
    loader.load([message(base64(png))], { organization: 1, signal: client.signal }, loader.hold(1, false)),
    { message: 'gone' },
  );
});

t.test('recognizes public addresses', (t) => {
  const inside = [
    '0.0.0.0',
    '10.1.2.3',
    '100.64.0.1',
    '127.0.0.1',
    '127.255.255.255',
    '169.254.169.254',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.1.1',
    '192.0.0.8',
    '192.0.2.1',
    '198.18.0.1',
    '198.51.100.7',
    '203.0.113.9',
    '224.0.0.1',
    '240.0.0.1',
    '255.255.255.255',
    '::',
    '::1',
    '::ffff:10.0.0.1',
    '::ffff:93.184.216.34',
    '::127.0.0.1',
    '64:ff9b::7f00:1',
    '64:ff9b:1::1',
    'fe80::1',
    'fe80::1%eth0',
    'fec0::1',
    'fc00::1',
    'fd12:3456::1',
    'ff02::1',
    '2001::1',
    '2001:db8::1',
    '2002:7f00:1::',
    '3fff::1',
    '100::1',
    '5f00::1',
    '',
    'localhost',
    '1.2.3',
    '0x7f.1',
  ];
  for (const address of inside) t.notOk(isPublicAddress(address), address);
  for (const address of [
    '93.184.216.34',
    '8.8.8.8',
    '172.32.0.1',
    '100.128.0.1',
    '2606:2800:220:1::1',
    '2a00:1450:4001::1',
    '2001:4860:4860::8888',
  ])
    t.ok(isPublicAddress(address), address);
  t.end();
});

t.test('fetches images over HTTPS', async (t) => {
  const hosts = ['images.test', 'cdn.images.test', 'other.test'];
  const { key, cert } = selfSigned(hosts);
  const asked: string[] = [];
  let reply: (request: IncomingMessage, response: ServerResponse) => void = (_, response) => response.end(png);
  const server = createServer({ key, cert }, (request, response) => {
    asked.push(`${request.headers.host}${request.url}`);
    reply(request, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;

  const PUBLIC = '93.184.216.34';
  const resolved: string[] = [];
  const dialled: string[] = [];
  const world = (names: (host: string) => string[] = () => [PUBLIC]): Partial<FetchDeps> => ({
    ca: cert,
    resolve: (host) => {
      resolved.push(host);
      return Promise.resolve(names(host).map((address) => ({ address, family: address.includes(':') ? 6 : 4 })));
    },
    dial: ({ address }) => {
      dialled.push(address);
      return { address: '127.0.0.1', family: 4, port };
    },
  });
  const allowed: Settings = { allowed_hosts: ['images.test', '*.images.test'], fetch_timeout_ms: 2_000 };
  const fetched = (
    text: string,
    names?: (host: string) => string[],
    settings: Settings = {},
  ): ReturnType<typeof refusal> => refusal([url(text)], { ...allowed, ...settings }, world(names));
  const failed = { code: 'image_fetch_failed', param: PATH };

  t.test('fetches an image', async (t) => {
    const images = await load(
      [url('https://images.test/a.png?x=1'), url('https://CDN.images.test/b'), base64(gif)],
      allowed,
      world(),
    );
    t.match(images, [{ format: 'png', width: 64 }, { format: 'png' }, { format: 'gif' }]);
    t.same(asked.sort(), ['cdn.images.test/b', 'images.test/a.png?x=1']);
    t.same(resolved.sort(), ['cdn.images.test', 'images.test'], 'each name is resolved once');
    t.same([...new Set(dialled)], [PUBLIC], 'connects to the address that was checked');
  });

  t.test('refuses disallowed URLs without a request', async (t) => {
    asked.length = 0;
    for (const text of [
      'http://images.test/a',
      'ftp://images.test/a',
      'file:///etc/passwd',
      'a.png',
      '',
      '//images.test/a',
      'https://',
      'https://user@images.test/',
      'https://user:pw@images.test/',
      'https://images.test:8443/',
      'https://images.test:80/',
      'https://other.test/',
      'https://images.test.evil.test/',
      'https://evilimages.test/',
      'https://127.0.0.1/',
      'https://[::1]/',
      `https://images.test/${'x'.repeat(8_192)}`,
    ]) {
      t.match(await fetched(text), failed, text.slice(0, 60));
    }
    t.match(await refusal([url('https://images.test/')], {}, world()), failed, 'no host is allowed by default');
    t.same(asked, []);
  });

  t.test('refuses hosts on internal addresses', async (t) => {
    asked.length = 0;
    const everyHost: Settings = { allowed_hosts: ['*'] };
    for (const address of [
      '127.0.0.1',
      '10.0.0.1',
      '169.254.169.254',
      '::1',
      '::ffff:127.0.0.1',
      'fd00::1',
      '64:ff9b::a00:1',
    ]) {
      t.match(
        await fetched('https://images.test/', () => [address]),
        { ...failed, message: /public address/ },
        address,
      );
      t.match(
        await fetched('https://images.test/', () => [PUBLIC, address]),
        failed,
        `${address} together with a public address`,
      );
      t.match(
        await fetched(`https://${address.includes(':') ? `[${address}]` : address}/`, undefined, everyHost),
        failed,
        `${address} in the URL`,
      );
    }
    for (const spelling of ['0x7f.1', '2130706433', '127.1', '0177.0.0.1', '127.0.0.1.'])
      t.match(await fetched(`https://${spelling}/`, undefined, everyHost), failed, spelling);
    t.match(await fetched('https://images.test/', () => []), failed, 'no address');
    t.match(
      await refusal([url('https://localhost/')], { allowed_hosts: ['localhost'] }),
      { ...failed, message: /public address/ },
      'resolved by the system resolver',
    );
    t.match(
      await fetched('https://images.test/', () => {
        throw new Error('ENOTFOUND');
      }),
      failed,
    );
    t.same(asked, []);
  });

  t.test('DNS rebinding: a name whose address changes is not resolved twice', async (t) => {
    dialled.length = 0;
    let times = 0;
    t.equal(await fetched('https://images.test/', () => (times++ === 0 ? [PUBLIC] : ['127.0.0.1'])), null);
    t.equal(times, 1, 'it is resolved once');
    t.same([...new Set(dialled)], [PUBLIC]);
  });

  t.test('checks redirects like the first URL', async (t) => {
    const to = (location: string | ((request: IncomingMessage) => string | null), status = 302) => {
      reply = (request, response) => {
        const next = typeof location === 'string' ? (request.url === '/a' ? location : null) : location(request);
        if (next === null) response.end(png);
        else response.writeHead(status, { location: next }).end('moved');
      };
    };
    for (const status of [301, 302, 303, 307, 308]) {
      to('https://cdn.images.test/b', status);
      t.equal(await fetched('https://images.test/a'), null, String(status));
    }
    to('/b?c');
    asked.length = 0;
    t.equal(await fetched('https://images.test/a'), null);
    t.same(asked, ['images.test/a', 'images.test/b?c'], 'relative redirects are followed');
    const hops =
      (count: number) =>
      (request: IncomingMessage): string | null =>
        Number(request.url!.slice(1)) < count ? `/${Number(request.url!.slice(1)) + 1}` : null;
    to(hops(3));
    t.equal(await fetched('https://images.test/0'), null, 'three redirects are allowed');
    to(hops(4));
    t.match(await fetched('https://images.test/0'), { ...failed, message: /more than 3 times/ });
    for (const location of [
      'http://images.test/b',
      'https://other.test/b',
      'https://127.0.0.1/',
      'https://images.test:444/',
      'https://user@images.test/',
      'file:///etc/passwd',
    ]) {
      asked.length = 0;
      to(location);
      t.match(await fetched('https://images.test/a'), failed, location);
      t.same(asked, ['images.test/a']);
    }
    to('https://cdn.images.test/b');
    t.match(
      await fetched('https://images.test/a', (host) => [host === 'images.test' ? PUBLIC : '10.0.0.1']),
      failed,
      'a redirect to an internal address is refused',
    );
    reply = (_, response) => response.writeHead(302).end();
    t.match(await fetched('https://images.test/a'), failed, 'a redirect without a target is refused');
  });

  t.test('refuses responses that are not an image', async (t) => {
    for (const status of [204, 206, 304, 404, 500]) {
      reply = (_, response) => response.writeHead(status).end();
      t.match(await fetched('https://images.test/'), { ...failed, message: String(status) });
    }
    reply = (_, response) => response.end('<html>');
    t.match(await fetched('https://images.test/'), { code: 'unsupported_image_format', param: PATH });
    reply = (_, response) => response.writeHead(200, { 'content-encoding': 'gzip' }).end(png);
    t.match(await fetched('https://images.test/'), failed);
    reply = (_, response) =>
      response.writeHead(200, { 'content-length': png.length }).write(png.subarray(0, 100), () => response.destroy());
    t.match(await fetched('https://images.test/'), failed, 'a truncated response is refused');
    reply = (request) => request.socket.destroy();
    t.match(await fetched('https://images.test/'), failed, 'no response');
    reply = (request) =>
      request.socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n');
    const late = new Promise((resolve) => {
      setTimeout(() => resolve('the request waited for its timeout'), 20_000).unref();
    });
    t.match(
      await Promise.race([fetched('https://images.test/', undefined, { fetch_timeout_ms: 60_000 }), late]),
      failed,
      'a switch to another protocol is detected immediately',
    );
  });

  t.test('limits the size and duration of a download', async (t) => {
    reply = (_, response) => response.end(png);
    t.match(await fetched('https://images.test/', undefined, { max_bytes: png.length - 1 }), {
      code: 'image_too_large',
      param: PATH,
    });
    let written = 0;
    reply = (_, response) => {
      const more = (): void => {
        while (!response.destroyed && response.write(Buffer.alloc(65_536))) written += 65_536;
        if (!response.destroyed) response.once('drain', more);
      };
      more();
    };
    t.match(
      await fetched('https://images.test/', undefined, { max_bytes: 200_000 }),
      { code: 'image_too_large' },
      'an endless body',
    );
    t.ok(written < 64 << 20, 'the endless body is not read completely');
    reply = (_, response) => {
      const timer = setInterval(() => response.write('x'), 20);
      response.on('close', () => clearInterval(timer));
    };
    t.match(
      await fetched('https://images.test/', undefined, { fetch_timeout_ms: 200 }),
      { ...failed, message: /200 ms/ },
      'a slow body',
    );
    reply = () => {};
    t.match(
      await fetched('https://images.test/', undefined, { fetch_timeout_ms: 200 }),
      { ...failed, message: /200 ms/ },
      'no response for too long',
    );
    t.match(
      await refusal(
        [url('https://images.test/')],
        { ...allowed, fetch_timeout_ms: 200 },
        { ...world(), resolve: () => new Promise(() => {}) },
      ),
      { ...failed, message: /200 ms/ },
      'a name server that does not respond',
    );
  });

  t.test('the certificate must be valid for the host', async (t) => {
    asked.length = 0;
    reply = (_, response) => response.end(png);
    t.match(
      await refusal([url('https://images.test/')], allowed, { ...world(), ca: undefined }),
      failed,
      'the certificate has an unknown issuer',
    );
    t.match(await fetched('https://wrong.images.test/'), failed, 'the certificate is for another host');
    t.same(asked, []);
  });

  t.test('one failed image cancels the others', async (t) => {
    let closed = 0;
    reply = (request, response) => {
      request.socket.on('close', () => closed++);
      if (request.url === '/bad') response.writeHead(404).end();
    };
    t.match(
      await refusal(
        [url('https://images.test/slow'), url('https://images.test/bad'), url('https://images.test/slow2')],
        { ...allowed, fetch_timeout_ms: 60_000 },
        world(),
      ),
      { code: 'image_fetch_failed', param: 'messages[0].content[2].image_url' },
    );
    t.ok(await eventually(() => closed === 3), 'connections close long before their own timeout');
  });
});

t.test('decodes pixels as displayed, 8 bits per color', async (t) => {
  const pixels = Buffer.from(Array.from({ length: 6 * 4 * 3 }, (_, i) => (i * 37) % 256));
  const raw = (): ReturnType<typeof sharp> => sharp(pixels, { raw: { width: 6, height: 4, channels: 3 } });
  const decoded = async (bytes: Buffer): Promise<{ width: number; height: number; pixels: Buffer }> => {
    const [image] = await load([base64(bytes)]);
    return {
      width: image!.width,
      height: image!.height,
      pixels: Buffer.from(
        await decodeRgb(image!, { path: PATH, requester: claimant }, async (data) => Buffer.from(data)),
      ),
    };
  };
  const turned = await raw().rotate(270).withMetadata({ orientation: 6 }).png().toBuffer();
  const exact: [string, Buffer][] = [
    ['PNG', await raw().png().toBuffer()],
    ['16 bits', await raw().toColourspace('rgb16').png().toBuffer()],
    ['lossless WebP', await raw().webp({ lossless: true }).toBuffer()],
    ['alpha', await raw().ensureAlpha(0).png().toBuffer()],
    ['turned', turned],
  ];
  for (const [name, bytes] of exact) t.same(await decoded(bytes), { width: 6, height: 4, pixels }, name);
  const grey = await decoded(await raw().greyscale().png().toBuffer());
  t.ok(
    grey.pixels.every((value, at) => value === grey.pixels[at - (at % 3)]),
    'a grayscale image has three equal channels',
  );
  const twoFrames = await sharp(Buffer.concat([Buffer.alloc(72, 10), Buffer.alloc(72, 200)]), {
    raw: { width: 6, height: 8, channels: 3, pageHeight: 4 },
  })
    .gif({ delay: [10, 10] })
    .toBuffer();
  const first = await decoded(twoFrames);
  t.same(
    [first.width, first.height, first.pixels.every((value) => value === 10)],
    [6, 4, true],
    'an animation: its first frame',
  );
  const cmyk = await decoded(
    await sharp({ create: { width: 6, height: 4, channels: 3, background: 'red' } })
      .toColourspace('cmyk')
      .jpeg()
      .toBuffer(),
  );
  t.ok(
    cmyk.pixels[0]! > 180 && cmyk.pixels[1]! < 90 && cmyk.pixels[2]! < 90,
    `red stays red in a CMYK image (${cmyk.pixels.subarray(0, 3).join(', ')})`,
  );
});

t.test(
  'counts image memory until it is freed: one organization may use half, and a whole request always fits',
  async (t) => {
    const budget = new ImageBudget(1_000, 50);
    const first = budget.open(1, false),
      second = budget.open(1, false),
      other = budget.open(2, false);
    first.add(300);
    t.throws(() => second.add(201), { code: 'capacity_exhausted', retryAfterMs: 2_000 });
    second.add(200);
    other.add(500);
    t.throws(() => budget.open(3, false).add(1), { code: 'capacity_exhausted' }, 'the budget is used up');
    first.release();
    first.release();
    t.equal(budget.taken, 700);
    second.release();
    other.release();
    t.equal(budget.taken, 0);
    const small = new ImageBudget(10, 50).open(1, true);
    small.add(50);
    t.equal(small.bytes, 250, 'an image for an upstream counts five times its size');

    const loader = createImageLoader({ ...configWith({}).images, max_bytes: png.length, max_held_bytes: 1_024 });
    const held = loader.hold(1, true);
    await loader.load([message(...Array.from({ length: 5 }, () => base64(png)), base64(png))], claimant, held);
    t.equal(held.bytes, 5 * png.length, 'a repeated image is kept once');
    const further = loader.hold(1, true);
    const others = await Promise.all(
      [1, 2, 3, 4, 5].map((red) =>
        sharp({ create: { width: 8, height: 8, channels: 3, background: { r: red, g: 0, b: 0 } } })
          .png()
          .toBuffer(),
      ),
    );
    await t.rejects(
      loader.load(
        [
          message(
            ...Array.from({ length: 5 }, (_, i) =>
              base64(Buffer.concat([others[i]!, Buffer.alloc(png.length - others[i]!.length)])),
            ),
          ),
        ],
        claimant,
        further,
      ),
      { code: 'capacity_exhausted' },
    );
    held.release();
    further.release();
  },
);
