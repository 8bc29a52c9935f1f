# For node-gyp users: a single target that runs the project's own build (cmake-js with native/CMakeLists.txt).
{
  'targets': [
    {
      'target_name': 'monolith_by_cmake',
      'type': 'none',
      'actions': [
        {
          'action_name': 'build',
          'inputs': ['native/CMakeLists.txt'],
          'outputs': ['<(PRODUCT_DIR)/always'],
          'action': ['node', 'scripts/build.mjs', 'native'],
        },
      ],
    },
  ],
}
