// Builds the page into dist/web. scripts/setup.mjs runs it and compresses what comes out.
import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

export default defineConfig({
  root: import.meta.dirname,
  base: '/dashboard/',
  publicDir: false,
  plugins: [react()],
  // The repository's root has another React, of its test runner: what is hoisted there must not pick it up.
  resolve: { dedupe: ['react', 'react-dom'] },
  build: {
    outDir: '../../../dist/web',
    emptyOutDir: true,
    assetsDir: 'assets',
    assetsInlineLimit: 0, // what is inlined would need "data:" in more of the content security policy
    modulePreload: { polyfill: false },
    target: ['chrome123', 'firefox121', 'safari17.5'],
    reportCompressedSize: false,
    chunkSizeWarningLimit: 700,
  },
  server: { proxy: { '/dashboard/api': 'http://127.0.0.1:8080', '/v1': 'http://127.0.0.1:8080' } },
});
