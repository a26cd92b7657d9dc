// The rules for the scripts of the console. Undefined names are left to the type checker, which knows the browser.
import js from "@eslint/js";

export default [
  {
    ...js.configs.recommended,
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      ...js.configs.recommended.rules,
      "no-undef": "off",
      "eqeqeq": "error",
      "no-eval": "error",
      "no-implied-eval": "error",
      "no-new-func": "error",
      "no-shadow": "error",
      "no-unused-expressions": "error",
      "no-var": "error",
      "prefer-const": "error",
    },
  },
];
