// npm run docs:notices: writes THIRD-PARTY-NOTICES.md, the licences of what the service is made with and the page holds: the
// packages that an installation without development packages has, and those that Vite puts into the page. From the
// packages themselves, as this machine has them: of those for one kind of processor, its own.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { root, run, SetupError } from './setup.mjs';

const kLicense = /^(licen[cs]e|copying|notice)(\.|-|$)/i;
const kWeb = 'src/dashboard/web';

/** Places in the lock of the packages that are shipped. */
export function shipped(lock) {
  const places = new Set();
  const found = (name, from) => {
    for (let at = from; ; at = at.includes('/node_modules/') ? at.slice(0, at.lastIndexOf('/node_modules/')) : '') {
      const place = `${at === '' ? '' : `${at}/`}node_modules/${name}`;
      if (lock.packages[place] !== undefined) return place;
      if (at === '') return null;
      if (!at.includes('/node_modules/') && at !== kWeb && !at.startsWith('node_modules/')) return null;
    }
  };
  const add = (place) => {
    if (places.has(place)) return;
    places.add(place);
    const { dependencies = {}, optionalDependencies = {} } = lock.packages[place];
    for (const name of Object.keys({ ...dependencies, ...optionalDependencies })) {
      const next = found(name, place);
      if (next !== null && lock.packages[next].link !== true) add(next);
    }
  };
  for (const [from, entry] of [
    ['', lock.packages['']],
    [kWeb, lock.packages[kWeb]],
  ]) {
    for (const name of Object.keys(entry.dependencies ?? {})) {
      const place = found(name, from);
      if (place !== null) add(place);
    }
  }
  return [...places].sort();
}

function notices() {
  const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'));
  const byText = new Map();
  for (const place of shipped(lock)) {
    const folder = join(root, place);
    const { version, license = 'as its text says', optional } = lock.packages[place];
    const name = place.slice(place.lastIndexOf('node_modules/') + 'node_modules/'.length);
    // What is for other machines is not here, and is of the same makers under the same licence as what is.
    if (!existsSync(folder)) {
      if (optional === true) continue;
      throw new SetupError(`notices: ${place} is not installed: run npm ci`);
    }
    const files = readdirSync(folder)
      .filter((file) => kLicense.test(file))
      .sort();
    const text =
      files.map((file) => readFileSync(join(folder, file), 'utf8').replace(/\r\n/g, '\n').trim()).join('\n\n') ||
      `(The package has no file of its licence; it names ${license}.)`;
    byText.set(text, [
      ...(byText.get(text) ?? []),
      `${name} ${version} (${typeof license === 'string' ? license : 'see below'})`,
    ]);
  }
  const parts = [...byText].map(
    ([text, names]) => `## ${[...new Set(names)].join(', ')}\n\n\`\`\`text\n${text}\n\`\`\`\n`,
  );
  return `# Third-party notices\n\nMonolith is under the Apache License 2.0 (LICENSE). It is used with these packages, each under its own licence. Written by\n\`npm run docs:notices\` from the packages themselves.\n\n${parts.join('\n')}`;
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  await run(async () => writeFileSync(join(root, 'THIRD-PARTY-NOTICES.md'), notices()));
}
