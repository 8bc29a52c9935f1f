// A copy of the compiled code for mutants, so that the checkout stays unchanged even if the run is killed.
import { cpSync, existsSync, mkdirSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../setup.mjs';

const kSandboxes = join(root, 'build', 'mutants');
export const sandbox = join(kSandboxes, `root-${process.pid}`);

/**
 * Copies dist/ and build/test/ and links everything else. The copy is removed when this process exits. Copies left
 * behind by killed processes are removed on the next call.
 */
export function makeSandbox() {
  for (const name of existsSync(kSandboxes) ? readdirSync(kSandboxes) : []) {
    const pid = /^root-(\d+)$/.exec(name)?.[1];
    if (pid !== undefined && !existsSync(`/proc/${pid}`))
      rmSync(join(kSandboxes, name), { recursive: true, force: true });
  }
  process.on('exit', () => rmSync(sandbox, { recursive: true, force: true }));
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
