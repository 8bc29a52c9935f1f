// Branch coverage of TypeScript files: V8's counts, mapped back to the sources by c8, which ships with tap.
import { relative } from 'node:path';
import { Report } from 'c8';
import { root } from '../setup.mjs';

/** @param {string} counts the directory that NODE_V8_COVERAGE pointed to */
export async function scriptBranches(folder, counts) {
  const report = new Report({
    tempDirectory: counts,
    resolve: '',
    src: [root],
    all: false,
    excludeAfterRemap: true,
    excludeNodeModules: true,
    mergeAsync: true,
    include: [folder.endsWith('.ts') ? folder : `${folder}/**/*.ts`],
    exclude: [],
    extension: ['.ts', '.js'],
    reporter: [],
    omitRelative: true,
    wrapperLength: 0,
  });
  const map = await report.getCoverageMapFromAllCoverageFiles();
  return map.files().map((file) => {
    const { branchMap, b } = map.fileCoverageFor(file).toJSON();
    const lines = new Set();
    let [taken, all] = [0, 0];
    for (const [id, times] of Object.entries(b)) {
      for (const [at, count] of times.entries()) {
        all += 1;
        if (count > 0) taken += 1;
        else lines.add((branchMap[id].locations[at] ?? branchMap[id].loc).start.line);
      }
    }
    return { name: relative(root, file), taken, all, lines: [...lines].sort((a, b) => a - b) };
  });
}
