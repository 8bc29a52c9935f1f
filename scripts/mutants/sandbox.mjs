// A copy of what is compiled, in which mutants are put: the checkout itself stays as it is, whatever ends the run.
import { cpSync, existsSync, mkdirSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../setup.mjs';

export const sandbox = join(root, 'build', 'mutants', 'root');

/** Made anew from dist/ and build/test/; all else is linked. */
export function makeSandbox() {
  rmSync(sandbox, { recursive: true, force: true });
  mkdirSync(join(sandbox, 'build'), { recursive: true });
  for (const name of readdirSync(root)) {
    if (!['build', 'dist', '.git'].includes(name)) symlinkSync(join(root, name), join(sandbox, name));
  }
  cpSync(join(root, 'dist'), join(sandbox, 'dist'), { recursive: true });
  cpSync(join(root, 'build', 'test'), join(sandbox, 'build', 'test'), { recursive: true });
  symlinkSync('../dist', join(sandbox, 'build', 'src'));
  for (const name of readdirSync(join(root, 'build'))) {
    const at = join(sandbox, 'build', name);
    if (!['mutants', 'test', 'src'].includes(name) && !existsSync(at)) symlinkSync(join(root, 'build', name), at);
  }
}
