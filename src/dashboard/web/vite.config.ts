// Builds the page into dist/web. Called by scripts/setup.mjs, which also compresses the output.
import { join } from 'node:path';
import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

export default defineConfig({
  root: import.meta.dirname,
  base: '/dashboard/',
  publicDir: false,
  plugins: [react()],
  // The repository root contains another copy of React for the test runner. Hoisted packages must not resolve to that
  // copy.
  resolve: { dedupe: ['react', 'react-dom'] },
  build: {
    outDir: '../../../dist/web',
    rollupOptions: { input: ['index.html', 'api-reference.html'].map((name) => join(import.meta.dirname, name)) },
    emptyOutDir: true,
    assetsDir: 'assets',
    assetsInlineLimit: 0, // inlined assets would require "data:" in more directives of the content security policy
    modulePreload: { polyfill: false },
    target: ['chrome123', 'firefox121', 'safari17.5'],
    reportCompressedSize: false,
    chunkSizeWarningLimit: 1_900, // in kB; Swagger UI exceeds the default
  },
  server: { proxy: { '/dashboard/api': 'http://127.0.0.1:8080', '/v1': 'http://127.0.0.1:8080' } },
});
