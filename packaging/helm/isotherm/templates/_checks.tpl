{{/* Refuses values that contradict each other: what, why, and what to do. */}}
{{- define "isotherm.checks" -}}
{{- $a := .Values.acting -}}
{{- if and (not $a.enabled) $a.namespaces -}}
{{- fail (printf "\nacting.namespaces names %s, but acting.enabled is false\n  why:   nothing would be acted on, although a namespace agreed\n  hint:  set acting.enabled=true, or leave acting.namespaces empty" (join ", " $a.namespaces)) -}}
{{- end -}}
{{- if and (not $a.enabled) $a.namespaceLabel -}}
{{- fail "\nacting.namespaceLabel is set, but acting.enabled is false\n  why:   nothing would be acted on, although namespaces with the label agreed\n  hint:  set acting.enabled=true, or leave acting.namespaceLabel empty" -}}
{{- end -}}
{{- if and $a.enabled (not $a.namespaces) (not $a.namespaceLabel) -}}
{{- fail "\nacting.enabled is true, but no namespace agreed\n  why:   the agent acts on pods of namespaces that opted in, and on nothing else\n  hint:  name them in acting.namespaces, or a label in acting.namespaceLabel" -}}
{{- end -}}
{{- range $a.namespaces -}}
{{- if or (eq . $.Release.Namespace) (hasPrefix "kube-" .) -}}
{{- fail (printf "\nacting.namespaces names %s\n  why:   it holds the agent itself, or what the cluster runs on\n  hint:  take it out of acting.namespaces" .) -}}
{{- end -}}
{{- end -}}
{{- if and $a.enabled (eq .Values.ops "smaps") -}}
{{- fail "\nacting.enabled is true, but ops is smaps\n  why:   smaps sees mappings, not pages: there is no evidence that a page is idle\n  hint:  ops=pagewalk or ops=idle" -}}
{{- end -}}
{{- if and .Values.existingPolicies .Values.policies -}}
{{- fail "\nexistingPolicies and policies are both set\n  why:   the ConfigMap that existingPolicies names takes the place of all policies of the chart\n  hint:  put the texts of policies into that ConfigMap, or leave existingPolicies empty" -}}
{{- end -}}
{{- range $name, $_ := .Values.policies -}}
{{- if has $name (list "act" "monitor") -}}
{{- fail (printf "\npolicies has one called %s\n  why:   the chart makes a policy of that name\n  hint:  give it another name" $name) -}}
{{- end -}}
{{- end -}}
{{- with .Values.resources.limits -}}
{{- if .memory -}}
{{- if lt (include "isotherm.bytes" .memory | int64) (include "isotherm.bytes" $.Values.monitor.memory | int64) -}}
{{- fail (printf "\nresources.limits.memory (%s) is less than monitor.memory (%s)\n  why:   the kernel would end the agent before the agent gives up resolution\n  hint:  lower monitor.memory, or raise the limit; twice as much is a good limit" (toString .memory) $.Values.monitor.memory) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.networkPolicy.from (not .Values.networkPolicy.enabled) -}}
{{- fail "\nnetworkPolicy.from is set, but networkPolicy.enabled is false\n  why:   everybody could scrape\n  hint:  set networkPolicy.enabled=true, or leave networkPolicy.from empty" -}}
{{- end -}}
{{- end }}
